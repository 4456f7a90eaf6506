"""Programs that `ligerdiag fuzz` found or led to, reduced: verdict and numbers once contradicted each other."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 64


@triton.jit
def turn_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x and y."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    y = tl.load(y_ptr + at).to(tl.float32)
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x - y))
    tl.store(x_ptr + at, (0.8 * x + 0.6 * place * y).to(x_ptr.dtype.element_ty))
    tl.store(y_ptr + at, (0.8 * y - 0.6 * place * x).to(y_ptr.dtype.element_ty))


def turn(x: jax.Array, y: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, y, kernel=turn_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def convert_twice(x: Any, y: Any) -> dict[str, Any]:
    """`x` is converted before the kernel and behind it, which XLA makes one conversion in two places. The product of the
    first is overwritten by the same kernel, so that `product` is computed from both, and rightly."""
    first = x.astype(jnp.float32) @ y * 0.1
    sums = turn(first, x)
    return {"product": first @ x.astype(jnp.float32) * 0.1, "sums": sums}


def convert_in_call(x: Any, y: Any) -> dict[str, Any]:
    """`y` is converted in a function, for nothing but the product that a kernel overwrites, and beside it. XLA inlines the
    call and makes one conversion of both: it is not what stood in the product before."""

    @jax.jit
    def call(x: jax.Array) -> jax.Array:
        return turn(x.astype(jnp.float32) @ y.astype(jnp.float32) * 0.25, x * 1.5)

    sums = call(x)
    beside = (jnp.outer(sums, jnp.cos(jnp.arange(SIZE))) + y.astype(jnp.float32)) * 0.74
    return {"sums": sums, "beside": jnp.roll(beside, 3, 0)}


def call_twice(x: Any, y: Any) -> dict[str, Any]:
    """A jitted function with a hidden write, called twice on equal arguments, as for a metric and its gradient. XLA inlines
    both and makes one kernel call of them: what reads the second call's operand reads the one that the kernel overwrote."""

    @jax.jit
    def call(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = x @ y
        return turn(product, x * 1.5), product

    (sums, product), (sums_again, product_again) = call(x), call(x)
    return {"first": sums.sum() + jnp.cos(product).sum(), "second": 2 * sums_again.sum() + jnp.sin(product_again).sum()}


def shift_beside(narrow: Any, split: Any) -> dict[str, Any]:
    """The partitioner computes the place of a device's rows by a conversion with the tag of the author's own."""
    product = split @ narrow.astype(jnp.float32) * 0.25
    sums = turn(product, split)
    shifted = narrow + 1.22
    scaled = jax.lax.with_sharding_constraint(shifted * 1.31, P("d", None))
    norm = sum((one * one).mean() for one in (product, shifted.astype(jnp.float32), scaled.astype(jnp.float32)))
    return {
        "sums": sums.sum(),
        "shifted": shifted.astype(jnp.float32),
        "scaled": scaled.astype(jnp.float32),
        "norm": norm,
    }


_WIDE, _NARROW = (Arg(shape=(SIZE, SIZE), dtype=dtype, draw=Draw(seed=1)) for dtype in ("float32", "bfloat16"))
CASES = (
    Case(
        name="convert_twice",
        function=convert_twice,
        args=(replace(_NARROW, draw=Draw(seed=0)), _WIDE),
        expected={"product": "fresh|latent", "sums": "fresh"},
    ),
    Case(
        name="convert_in_call",
        function=convert_in_call,
        args=(replace(_NARROW, draw=Draw(seed=0)), _NARROW),
        expected="fresh",
    ),
    Case(
        name="call_twice",
        function=call_twice,
        args=(replace(_WIDE, draw=Draw(seed=0)), _WIDE),
        expected={"first": "fresh|latent", "second": "fresh|latent"},
    ),
    Case(
        name="shift_beside",
        function=shift_beside,
        args=(replace(_NARROW, partition=()), Arg(shape=(8, SIZE), draw=Draw(seed=2), partition=(None, "d"))),
        mesh={"d": 2},
        expected={"norm": "stale", "*": "fresh"},
    ),
)
