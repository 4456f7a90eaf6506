"""The partitioner loses an update whose start lies outside of the array.

Structure: two devices split the columns; one column is written by a dynamic update, at a start that is one too large.

The right answer: HLO clamps the start, so the last column gets the update: `x` differs from the argument in column 7. The
partitioner asks each device whether the start that was given is its own, and none says yes: `x` lacks the update. The cured
twin clamps the start itself.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

ROWS, COLUMNS = 16, 8


def update(x, column, start):
    return {"x": jax.lax.dynamic_update_slice(x, column, (0, start))}


def update_clamped(x, column, start):
    return {"x": jax.lax.dynamic_update_slice(x, column, (0, jnp.clip(start, 0, COLUMNS - 1)))}


def reference(x, column, start):
    return {"x": x.at[:, COLUMNS - 1 :].set(column)}


START = Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=COLUMNS, high=COLUMNS + 1))
ARGS = (Arg(shape=(ROWS, COLUMNS), partition=(None, "x")), Arg(shape=(ROWS, 1)), START)
REPORT = Report(
    link="https://github.com/openxla/xla/issues/49118",
    year=2026,
    versions="XLA of September 2026, two devices",
    kind=Kind.LOST_UPDATE,
    reported="a partitioned update whose start has to be clamped is dropped",
    finds=Wrong(outputs=("x",), kinds=(Kind.LOST_UPDATE, Kind.MISCOMPILE, Kind.STALE)),
)
BAD = Case(name="xla_49118", params=("bad",), function=update, args=ARGS, mesh={"x": 2}, reference=reference)
CURED = Case(
    name="xla_49118", params=("cured",), function=update_clamped, args=ARGS, mesh={"x": 2}, reference=reference
)
CASES = (BAD, CURED)
