"""The programs of this package in plain jnp, with every value in program order, and their results on old contents."""

from typing import Any

import jax.numpy as jnp


def hidden(x: Any) -> Any:
    """`add_and_double` overwrites `h`, and `sum` reads it afterwards."""
    h = x * 3
    return {"out": h + 1, "sum": h * 2 + 1}


def declared(x: Any) -> Any:
    h = x * 3
    return {"out": h + 1, "doubled": h * 2, "sum": h + 1}


def doubled(x: Any) -> Any:
    h = x * 3
    return {"doubled": h * 2, "sum": h + 1}


def sine_hidden(x: Any) -> Any:
    h = x * 3
    return {"sine": jnp.sin(h), "sum": h * 2 + 1}


def sine_declared(x: Any) -> Any:
    h = x * 3
    return {"sine": jnp.sin(h), "doubled": h * 2, "sum": h + 1}


def rows_hidden(x: Any) -> Any:
    """`add_rows` doubles the first columns, and adds each row to `total`, which is read afterwards."""
    h = x * 3
    return {"out": _double_first(h), "sum": h + 1, "total": h.sum(axis=1) + 1}


def rows_declared(x: Any) -> Any:
    h = x * 3
    return {"out": _double_first(h), "sum": h + 1, "before": jnp.ones(h.shape[0]), "total": h.sum(axis=1)}


def _double_first(h: Any) -> Any:
    rows, columns = h.shape
    return jnp.asarray(h).at[:, : columns - rows].multiply(2)


def old_sum(x: Any) -> Any:
    """`sum` of `hidden` and `sine_hidden` if the schedule reads `h` before the kernel."""
    return x * 3 + 1


def old_total(x: Any) -> Any:
    """`total` of `rows_hidden` if the schedule reads it before the kernel."""
    return jnp.ones(x.shape[0])
