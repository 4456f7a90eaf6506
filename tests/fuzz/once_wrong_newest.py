"""Programs that were once called wrong with jax-triton 0.4 and later, but are right.

XLA gives a kernel in a loop the address of a slice of the stack that the loop traverses, and each iteration overwrites
another slice. `backwards` traverses from the last slice to the first. `again` reads the overwritten slice in another
fusion, by luck after the kernel. `carried` makes the stack anew in each iteration from what the kernel left. `before`
reads the slice before the kernel, when earlier iterations have overwritten other slices: with jax-triton 0.4 the read
is in flight while the kernel runs, before 0.4 it comes after the kernel.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

ROWS, COLUMNS, LENGTH = 8, 16, 3


@triton.jit
def shift_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * x))
    tl.store(x_ptr + at, 1.0 - 0.5 * x - tl.arange(0, COLUMNS) / COLUMNS)


def shift(x: Any) -> Any:
    sums = jax.ShapeDtypeStruct((x.shape[0],), x.dtype)
    return jax_triton.triton_call(x, kernel=shift_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def shift_formula(x: Any) -> tuple[Any, Any]:
    return (x * x).sum(1), 1.0 - 0.5 * x - jnp.arange(COLUMNS) / COLUMNS


def go_backwards(x: Any) -> dict[str, Any]:
    def body(total: Any, row: Any) -> Any:
        return total * 0.9 + shift(row).sum(), None

    stack = jnp.stack([x * (1.4 + 0.2 * i) for i in range(LENGTH)])
    return {"total": jax.lax.scan(body, 0.0, stack, reverse=True)[0]}


def go_backwards_in_jnp(x: Any) -> dict[str, Any]:
    total = 0.0
    for i in reversed(range(LENGTH)):
        total = total * 0.9 + shift_formula(x * (1.4 + 0.2 * i))[0].sum()
    return {"total": total}


def read_again(x: Any) -> dict[str, Any]:
    def body(total: Any, row: Any) -> Any:
        sums = shift(row)
        return total + sums.sum(), row[: ROWS // 2]

    stack = jnp.stack([x * (0.8 + 0.2 * i) for i in range(LENGTH)])
    total, upper = jax.lax.scan(body, 0.0, stack)
    return {"total": total, "upper": upper}


def read_again_in_jnp(x: Any) -> dict[str, Any]:
    made = [shift_formula(x * (0.8 + 0.2 * i)) for i in range(LENGTH)]
    return {"total": sum(sums.sum() for sums, _ in made), "upper": jnp.stack([after[: ROWS // 2] for _, after in made])}


def carry_stack(x: Any) -> dict[str, Any]:
    def body(i: Any, state: Any) -> Any:
        stack, total = state
        stack = jnp.tanh(stack) + 0.1 * stack.mean()
        row = jax.lax.dynamic_index_in_dim(stack, i, keepdims=False)
        total = total + shift(row).sum() * 1e-2
        return stack.at[i].set(row[::-1]), total

    stack = jnp.stack([x * (0.8 + 0.2 * i) for i in range(LENGTH)])
    stack, total = jax.lax.fori_loop(0, LENGTH, body, (stack, jnp.float32(0)))
    return {"total": total, "stack": stack}


def carry_stack_in_jnp(x: Any) -> dict[str, Any]:
    stack, total = jnp.stack([x * (0.8 + 0.2 * i) for i in range(LENGTH)]), jnp.float32(0)
    for i in range(LENGTH):
        stack = jnp.tanh(stack) + 0.1 * stack.mean()
        sums, row = shift_formula(stack[i])
        total = total + sums.sum() * 1e-2
        stack = stack.at[i].set(row[::-1])
    return {"total": total, "stack": stack}


def read_before(x: Any, w: Any) -> dict[str, Any]:
    def body(row: Any) -> Any:
        product = jnp.dot(w, row)
        return product * 1.1, shift(row).sum()

    products, sums = jax.lax.map(body, jnp.stack([x * (0.8 + 0.2 * i) for i in range(LENGTH)]))
    return {"mean": products.mean(0), "sums": sums}


def read_before_in_jnp(x: Any, w: Any) -> dict[str, Any]:
    rows = [x * (0.8 + 0.2 * i) for i in range(LENGTH)]
    sums = jnp.stack([shift_formula(row)[0].sum() for row in rows])
    return {"mean": jnp.stack([jnp.dot(w, row) * 1.1 for row in rows]).mean(0), "sums": sums}


CASES = (
    Case(
        name="backwards",
        function=go_backwards,
        args=(Arg(shape=(ROWS, COLUMNS)),),
        reference=go_backwards_in_jnp,
        expected="fresh",
    ),
    Case(
        name="again",
        function=read_again,
        args=(Arg(shape=(ROWS, COLUMNS)),),
        reference=read_again_in_jnp,
        expected={"total": "fresh", "upper": "fresh|latent|stale"},  # stale before 0.4, also by its numbers
    ),
    Case(
        name="carried",
        function=carry_stack,
        args=(Arg(shape=(ROWS, COLUMNS)),),
        reference=carry_stack_in_jnp,
        expected={"total": "fresh|latent|stale", "stack": "fresh|latent|stale"},  # latent before 0.4
    ),
    Case(
        name="before",
        function=read_before,
        args=(Arg(shape=(ROWS, COLUMNS)), Arg(shape=(ROWS, ROWS))),
        reference=read_before_in_jnp,
    ),
)
