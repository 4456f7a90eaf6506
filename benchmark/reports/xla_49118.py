"""An update of a sharded array disappears, if its start is out of range.

Structure: a column is written into an array whose columns are on two devices, at start 2 of 2.

The right answer: the start is clamped to 2 - 1 = 1, so the last column of `updated` is the new one. The partitioner
asks which device owns column 2, and none does: the update is dropped.
"""

import numpy as np
from jax import lax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def update(x, column, start):
    return {"updated": lax.dynamic_update_slice(x, column, [np.int32(0), start])}


def update_clamped(x, column, start):
    return update(x, column, lax.clamp(0, start, 1))


def update_plainly(x, column, start):
    del start
    return {"updated": lax.concatenate([x[:, :1], column], 1)}


def draw_start(key, shape, dtype):
    del key
    return np.full(shape, 2, dtype)


REPORT = Report(
    link="https://github.com/openxla/xla/issues/49118",
    year=2026,
    versions="jax 0.11",
    kind=Kind.MISCOMPILE,
    reported="the partitioner drops a dynamic update slice whose start needs clamping",
    finds=Wrong(outputs=("updated",)),
)
ARGS = (
    Arg(shape=(2, 2), partition=(None, "x")),
    Arg(shape=(2, 1)),
    Arg(shape=(), dtype="int32", draw=draw_start),
)
BAD = Case(name="xla_49118", params=("bad",), function=update, args=ARGS, mesh={"x": 2}, reference=update_plainly)
CURED = Case(
    name="xla_49118", params=("cured",), function=update_clamped, args=ARGS, mesh={"x": 2}, reference=update_plainly
)
CASES = (BAD, CURED)
