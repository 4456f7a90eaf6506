"""NVIDIA Warp (package `warp-lang`): the arguments in `in_out_argnames` are declared, and nobody checks the others."""

from typing import Any

import warp as wp
from warp import jax_kernel

from ligerdiag.model.case import Arg, Case
from tests.effects.library_programs import plain


@wp.kernel
def add_and_double(a: wp.array(dtype=float), out: wp.array(dtype=float)):  # type: ignore[valid-type]
    place = wp.tid()
    value = a[place]
    out[place] = value + 1.0
    a[place] = value * 2.0


@wp.kernel
def add_rows(
    a: wp.array2d(dtype=float),  # type: ignore[valid-type]
    scale: float,
    total: wp.array(dtype=float),  # type: ignore[valid-type]
    out: wp.array2d(dtype=float),  # type: ignore[valid-type]
):
    row, column = wp.tid()
    out[row, column] = a[row, column]
    if column < a.shape[1] - total.shape[0]:
        out[row, column] = a[row, column] * scale
    wp.atomic_add(total, row, a[row, column])


add_and_double_call = jax_kernel(add_and_double)
add_and_double_declared = jax_kernel(add_and_double, num_outputs=2, in_out_argnames=["a"])
add_rows_undeclared = jax_kernel(add_rows)
add_rows_declared = jax_kernel(add_rows, num_outputs=2, in_out_argnames=["total"])


def hidden(x: Any) -> Any:
    h = x * 3
    (out,) = add_and_double_call(h)
    return {"out": out, "sum": h + 1}


def hidden_total(x: Any) -> Any:
    h, total = x * 3, x[:, 0] * 0
    (out,) = add_rows_undeclared(h, 2.0, total)
    return {"out": out, "sum": h + 1, "total": total + 1}


def declared(x: Any) -> Any:
    h, total = x * 3, x[:, 0] * 0
    after, out = add_rows_declared(h, 2.0, total)
    return {"out": out, "sum": h + 1, "before": total + 1, "total": after}


def declared_double(x: Any) -> Any:
    h = x * 3
    doubled, out = add_and_double_declared(h)
    return {"out": out, "doubled": doubled, "sum": h + 1}


VECTOR = Arg(shape=(64,))
ROWS = Arg(shape=(8, 16))
STALE, STALE_TOTAL = {"sum": "stale", "*": "fresh"}, {"total": "stale", "*": "fresh"}
CASES = (
    Case(name="hidden", function=hidden, args=(VECTOR,), reference=plain.hidden, expected=STALE),
    Case(name="hidden_total", function=hidden_total, args=(ROWS,), reference=plain.rows_hidden, expected=STALE_TOTAL),
    Case(name="declared", function=declared, args=(ROWS,), reference=plain.rows_declared, expected="fresh"),
    Case(name="declared_double", function=declared_double, args=(VECTOR,), reference=plain.declared, expected="fresh"),
)
