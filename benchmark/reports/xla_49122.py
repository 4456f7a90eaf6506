"""The partitioner clamps the start of a slice on each device instead of once.

Structure: two devices split the columns of the result of a dynamic slice, whose start is too large.

The right answer: HLO clamps the start to 2, so the result has the columns 2 to 7 of the argument. If each device clamps for
itself and then adds its own offset, both read the last columns: `window` is wrong. The cured twin clamps the start itself.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

ROWS, COLUMNS, WIDTH = 4, 8, 6


def cut(x, start):
    window = jax.lax.dynamic_slice(x, (0, start), (ROWS, WIDTH))
    return {"window": jax.lax.with_sharding_constraint(window, jax.P(None, "x"))}


def cut_clamped(x, start):
    return cut(x, jnp.clip(start, 0, COLUMNS - WIDTH))


def reference(x, start):
    return {"window": x[:, COLUMNS - WIDTH :]}


START = Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=COLUMNS - 1, high=COLUMNS))
ARGS = (Arg(shape=(ROWS, COLUMNS)), START)
REPORT = Report(
    link="https://github.com/openxla/xla/issues/49122",
    year=2026,
    versions="XLA of September 2026, two devices",
    kind=Kind.MISCOMPILE,
    reported="a partitioned slice whose start has to be clamped reads the same columns on both devices",
    finds=Wrong(outputs=("window",), kinds=(Kind.MISCOMPILE, Kind.STALE)),
)
BAD = Case(name="xla_49122", params=("bad",), function=cut, args=ARGS, mesh={"x": 2}, reference=reference)
CURED = Case(name="xla_49122", params=("cured",), function=cut_clamped, args=ARGS, mesh={"x": 2}, reference=reference)
CASES = (BAD, CURED)
