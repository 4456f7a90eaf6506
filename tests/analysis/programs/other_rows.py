"""A kernel overwrites some rows of an array, and the program then reads others, which the kernel does not write.

Each output named `..._in` reads at least one of the overwritten rows.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 16
FIRST, COUNT = 4, 8


@triton.jit
def bend_rows_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr, FIRST_ROW: tl.constexpr):
    """Overwrites rows of x."""
    at = (FIRST_ROW + tl.program_id(0)) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * (1 + place)))
    tl.store(x_ptr + at, 0.7 * x * x - 0.4 * place)


def bend_rows(x: jax.Array, first: int = FIRST, count: int = COUNT) -> jax.Array:
    sums = jax.ShapeDtypeStruct((count,), jnp.float32)
    return jax_triton.triton_call(
        x, kernel=bend_rows_kernel, out_shape=sums, grid=(count,), COLUMNS=x.shape[1], FIRST_ROW=first
    )


READS: Mapping[str, Callable[[Any, Any], Any]] = {
    "rows": lambda a, y: a[:4] + y[:4],
    "rows_in": lambda a, y: a[:5] + y[:5],
    "turned": lambda a, y: a[::-1][:4] * 2,
    "turned_in": lambda a, y: a[::-1][:5] * 2,
    "rolled": lambda a, y: jnp.roll(a, 3, 0)[:7] * 2,
    "rolled_in": lambda a, y: jnp.roll(a, 3, 0)[:8] * 2,
    "transposed": lambda a, y: a.T[:, 12:] * 2,
    "transposed_in": lambda a, y: a.T[:4] * 2,
    "flat": lambda a, y: a.reshape(-1)[:64] * 2,
    "flat_in": lambda a, y: a.reshape(-1)[:65] * 2,
    "wide": lambda a, y: a.reshape(8, 32)[6:] * 2,
    "wide_in": lambda a, y: a.reshape(8, 32)[5:] * 2,
    "product": lambda a, y: (a @ y)[:4],
    "product_in": lambda a, y: (y @ a)[:4],
    "sums": lambda a, y: a.sum(1)[12:],
    "sums_in": lambda a, y: a.sum(0),
    "either": lambda a, y: jax.lax.cond(y[0, 0] > 0, lambda: a[:4], lambda: a[12:]),
    "either_in": lambda a, y: jax.lax.cond(y[0, 0] > 0, lambda: a[4:8], lambda: a[12:]),
    "neighbours": lambda a, y: (a[:-1] + a[1:])[:3],
    "neighbours_in": lambda a, y: (a[:-1] + a[1:])[:4],
}
MADE: Mapping[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x @ y,
    "elements": lambda x, y: jnp.tanh(x) * 2,
    "argument": lambda x, y: x,
}


def _make(made: str, name: str) -> Callable[[Any, Any], dict[str, Any]]:
    def program(x: Any, y: Any) -> dict[str, Any]:
        array = MADE[made](x, y)
        total = bend_rows(array).sum()
        return {"total": total, "read": READS[name](array, y)}

    return program


def write_transposed(x: Any, y: Any) -> dict[str, Any]:
    """The overwritten rows are columns of the product, which is square: the schedule has one array for both."""
    product = x @ y
    total = bend_rows(product.T).sum()
    return {"total": total, "read": product[12:] * 2}


def write_in_branch(x: Any, y: Any) -> dict[str, Any]:
    """After a branch, rows are no longer distinguished: `read` needs no overwritten row, and its numbers are right."""
    one, other = (lambda: bend_rows(x, 15, 1).sum()), (lambda: bend_rows(x, 2, 1).sum())
    total = jax.lax.cond(y[0, 0] > 0, one, other) + bend_rows(x, 9, 1).sum()
    joined = jnp.concatenate([x, y])[4:14] * 2
    return {"total": total, "joined": joined, "flat": x.reshape(-1)[80:192] * 2, "read": x[3:11] * 3}


@triton.jit
def append_row_kernel(x_ptr, row_ptr, place_ptr, sum_ptr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """Overwrites the row of x whose number it loads."""
    at = tl.arange(0, COLUMNS)
    row = tl.load(row_ptr + at)
    tl.store(sum_ptr, tl.sum(row * at))
    tl.store(x_ptr + (tl.load(place_ptr) % ROWS) * COLUMNS + at, row)


def _append(distance: int | None) -> Callable[[Any, Any], dict[str, Any]]:
    """Returns a program that appends rows to a ring of rows, and reads the row at a distance from each before and after
    the call; all rows if None. XLA merges the two reads.
    """

    def program(x: Any, y: Any) -> dict[str, Any]:
        array = x @ y

        def body(place: Any, total: Any) -> Any:
            def read() -> Any:
                return jnp.sin(array if distance is None else array[(place + distance) % SIZE]).sum()

            first = read()
            total += jax_triton.triton_call(
                array,
                jnp.tanh(y[place] + first),
                place,
                kernel=append_row_kernel,
                out_shape=jax.ShapeDtypeStruct((), jnp.float32),
                grid=1,
                COLUMNS=SIZE,
                ROWS=SIZE,
            )
            return total + read()

        return {"read": jax.lax.fori_loop(1, 4, body, 0.0)}

    return program


_ARGUMENTS = (Arg(shape=(SIZE, SIZE), draw=Draw(seed=1)), Arg(shape=(SIZE, SIZE), draw=Draw(seed=2)))
_ODD: Mapping[Callable[..., Any], Mapping[str, str]] = {
    write_transposed: {"total": "fresh", "read": "clobbered|stale"},
    write_in_branch: {"*": "stale|fresh|latent"},
}
CASES = (
    tuple(
        Case(name=function.__name__, function=function, args=_ARGUMENTS, expected=expected)
        for function, expected in _ODD.items()
    )
    + tuple(
        Case(
            name="other_rows",
            params=(made, name),
            function=_make(made, name),
            args=_ARGUMENTS,
            expected={"total": "fresh", "read": "latent|stale|clobbered" if name.endswith("_in") else "fresh"},
        )
        for made in MADE
        for name in READS
    )
    + tuple(
        Case(
            name="ring",
            params=(name,),
            function=_append(distance),
            args=_ARGUMENTS,
            expected={"read": "stale"},
        )
        for name, distance in (("before", SIZE - 1), ("same_in", 0), ("all_in", None))
    )
)
