"""Programs in which a wrong output was once called right, found on two H200s by `ligerdiag fuzz --device`, reduced.

In each XLA sees that a value stays what it was, since it knows nothing of the kernel, and computes one operand of a product
before the kernel and reads the other one behind it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 16


@triton.jit
def damp_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x; reads y."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    y = tl.load(y_ptr + at).to(tl.float32)
    tl.store(sum_ptr + tl.program_id(0), tl.sum((x + y) * (1 + tl.arange(0, COLUMNS) / COLUMNS)))
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(x_ptr + at, (x * tl.exp(-y * y) + 0.5 * place * y).to(x_ptr.dtype.element_ty))


def damp(x: jax.Array, y: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, y, kernel=damp_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def multiply_rows(value: Any) -> dict[str, Any]:
    rows = value[jnp.arange(SIZE) * 3 % SIZE]
    products = {"product": rows @ rows * 0.25, "product_again": rows @ value * 0.25}
    return products | {"norm": sum((one * one).mean() for one in products.values())}


def damp_in_loop(y: Any) -> dict[str, Any]:
    """A loop that may not run."""
    turned = y.T

    def step(_: Any, state: Any) -> Any:
        value, before = state
        return value, before + damp(value, turned).sum() * 1e-2

    count = 1 + (y[0, 0] > 0).astype(jnp.int32)
    value, total = jax.lax.fori_loop(0, count, step, (y * 0.64, jnp.float32(0)))
    return {"total": total, **multiply_rows(value)}


def damp_in_branch(y: Any) -> dict[str, Any]:
    """A branch that may not be taken."""
    turned, value = y.T, y * 0.64
    total = jax.lax.cond(y[0, 0] > -9, lambda: damp(value, turned).sum(), lambda: jnp.float32(0))
    return {"total": total, **multiply_rows(value)}


def damp_row_of_one(y: Any) -> dict[str, Any]:
    """The mean of a stack with one row is that row to XLA, and neither the stack nor the mean is left."""
    turned = y.T
    (stacked,) = jax.lax.map(lambda row: (row,), jnp.stack([y * 0.95]))
    value = stacked.mean(0)
    total = damp(value, turned).sum()
    return {"total": total, **multiply_rows(value)}


CASES = tuple(
    Case(
        name=function.__name__,
        function=function,
        args=(Arg(shape=(SIZE, SIZE), draw=Draw(seed=124270)),),
        expected={"total": "fresh", "product": "stale", "product_again": "stale", "norm": "stale"},
    )
    for function in (damp_in_loop, damp_in_branch, damp_row_of_one)
)
