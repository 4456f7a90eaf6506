"""Programs with a wrong output that was once called right because two operands or two operations were confused.

XLA computes the confused operations together. See `once_missed` for more programs.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ligerdiag.model.case import Arg, Case, Draw
from tests.fuzz.once_missed import ARGUMENTS, SIZE, WRONG, bend, damp


def read_before_and_behind_in_one_product(x: Any, y: Any) -> dict[str, Any]:
    """XLA computes both products with y as one, before the kernel."""
    summed = (x + y) * 1.42
    total = damp(y, x @ y * 0.25).sum()
    turned = jnp.cos(total * 1e-3 + x)
    return {"total": total, "both": turned @ y * 0.25 + summed @ y * 0.25}


def read_three_times_in_one_product(x: Any, y: Any) -> dict[str, Any]:
    """As above, with y on the left, and with a third product before the kernel."""
    first, second = y @ jnp.sin(x), y @ jnp.cos(x)
    total = damp(y, first + second.T).sum()
    turned = jnp.cos(total * 1e-3 + x)
    return {"total": total, "second": second, "both": y @ turned + y @ jnp.tanh(x)}


def read_behind_another_kernel_in_one_product(x: Any, y: Any) -> dict[str, Any]:
    """As above; y is the result of another product, and the first kernel overwrites another value."""
    value = x @ y * 0.25
    first = damp(x * 1.5, y).sum()
    total = damp(value, jnp.sin(x) @ value).sum()
    turned = jnp.cos(total * 1e-3 + x)
    return {"first": first, "total": total, "both": turned @ value + jnp.tanh(x) @ value}


def gather_what_goes_through_barrier(x: Any, y: Any) -> dict[str, Any]:
    """On two devices the first product reads what the kernel leaves, the second one bytes that it does not overwrite."""
    value = jnp.maximum(x, x * 0.72)
    joined = jnp.concatenate([value @ y * 0.25, value])
    first, value = jax.lax.optimization_barrier((bend(value), value))
    product = value @ joined * 0.25
    placed = jax.lax.with_sharding_constraint(value * 1.45, P("d", None))
    return {"first": first.sum(), "total": bend(product).sum(), "placed": placed}


def gather_before_add_behind(x: Any, y: Any) -> dict[str, Any]:
    """On four devices the gather reads what the kernel leaves in a copy of the argument, the sum the argument itself."""
    before = x[jnp.arange(SIZE) * 3 % SIZE]
    return {"total": bend(x).sum(), "both": (before + x) * 1.3, "beside": y * 2}


def reverse_beside_loop_of_one_step(x: Any, y: Any) -> dict[str, Any]:
    """XLA removes the loop, so that its result is the product that the kernel overwrites.

    XLA recomputes the reversed product from x.
    """
    value, _ = jax.lax.scan(lambda before, step: (step, before[:1]), y * 0.64, (x * 0.64)[None])
    return {"total": damp(value, x).sum(), "both": jnp.concatenate([value[::-1], value])}


CASES = (
    Case(
        name=gather_what_goes_through_barrier.__name__,
        function=gather_what_goes_through_barrier,
        args=(
            Arg(shape=(SIZE // 2, SIZE), draw=Draw(seed=2), partition=()),
            Arg(shape=(SIZE, SIZE), draw=Draw(seed=1), partition=(None, "d")),
        ),
        mesh={"d": 2},
        expected={"first": "fresh", "total": WRONG, "placed": WRONG},
    ),
    Case(
        name=gather_before_add_behind.__name__,
        function=gather_before_add_behind,
        args=tuple(Arg(shape=(SIZE, SIZE), draw=Draw(seed=seed), partition=("d", None)) for seed in (1, 2)),
        mesh={"d": 4},
        expected={"total": "fresh", "both": WRONG, "beside": "fresh"},
    ),
    *[
        Case(name=function.__name__, function=function, args=ARGUMENTS, expected={"both": WRONG, "*": "fresh"})
        for function in (
            read_before_and_behind_in_one_product,
            read_three_times_in_one_product,
            read_behind_another_kernel_in_one_product,
            reverse_beside_loop_of_one_step,
        )
    ],
)
