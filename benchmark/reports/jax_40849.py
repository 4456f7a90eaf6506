"""An element read through two slices in a row is another one, if a start is out of range.

Structure: dynamic_slice(dynamic_slice(x, i, 4), j, 1) with i = 3 and j = 5.

The right answer: i stays 3, and j is clamped to 4 - 1 = 3, so `element` is x[6]. XLA merges both into one slice whose
start is i + j = 8, which is in range, and reads x[8].
"""

import numpy as np
from jax import lax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Case


def read_element(x, i, j):
    return {"element": lax.dynamic_slice(lax.dynamic_slice(x, (i,), (4,)), (j,), (1,))}


def read_clamped_element(x, i, j):
    return read_element(x, lax.clamp(0, i, 6), lax.clamp(0, j, 3))


def read_plainly(x, i, j):
    del i, j
    return {"element": x[6:7]}


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/40849",
    year=2026,
    versions="jax 0.12.0 of 20 September",
    kind=Kind.MISCOMPILE,
    reported="a dynamic slice of a dynamic slice reads the wrong element for starts out of range",
    finds=Wrong(outputs=("element",)),
)
ARGS = (np.arange(10, dtype=np.float32), np.int32(3), np.int32(5))
BAD = Case(name="jax_40849", params=("bad",), function=read_element, args=ARGS, reference=read_plainly)
CURED = Case(name="jax_40849", params=("cured",), function=read_clamped_element, args=ARGS, reference=read_plainly)
CASES = (BAD, CURED)
