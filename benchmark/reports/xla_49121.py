"""A slice of a rotated array is read at the wrong place, if its start is out of range.

Structure: dynamic_slice of a roll, which is itself a dynamic_slice of the array twice in a row; XLA folds both into
one.

The right answer: x = [0, 10, ..., 80] rotated by 4 is [50, 60, 70, 80, 0, 10, 20, 30, 40]; start 12 is clamped to 9 - 4
= 5, so `window` is [10, 20, 30, 40]. The folded slice adds 12 unclamped to the start of the roll, and reads another
window.
"""

import numpy as np
from jax import lax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Case


def read_window(x, shift, start):
    twice = lax.concatenate([x, x], 0)
    rotated = lax.dynamic_slice(twice, [9 - shift], [9])
    return {"window": lax.dynamic_slice(rotated, [start], [4])}


def read_clamped_window(x, shift, start):
    return read_window(x, shift, lax.clamp(0, start, 5))


def read_plainly(x, shift, start):
    del shift, start
    return {"window": x[1:5]}


REPORT = Report(
    link="https://github.com/openxla/xla/issues/49121",
    year=2026,
    versions="jax 0.11",
    kind=Kind.MISCOMPILE,
    reported="nested dynamic slices are folded without clamping the outer start",
    finds=Wrong(outputs=("window",)),
)
ARGS = (np.arange(9, dtype=np.float32) * 10, np.int32(4), np.int32(12))
BAD = Case(name="xla_49121", params=("bad",), function=read_window, args=ARGS, reference=read_plainly)
CURED = Case(name="xla_49121", params=("cured",), function=read_clamped_window, args=ARGS, reference=read_plainly)
CASES = (BAD, CURED)
