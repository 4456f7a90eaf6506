"""An update with a constant start that is out of range lands at the wrong place on a GPU.

Structure: dynamic_update_slice with the constant start (1, 1, 31) into f32[3, 1, 33], of an update of eight elements.

The right answer: the start is clamped to (1, 0, 25). XLA's thunk for such a copy takes its offset from the raw start:
part of `updated` is old, and the tail of the update is in the next row.
"""

from jax import lax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def update(start, x):
    t = x[:, 94]
    part = lax.dynamic_slice(t, [0, 0, 0], (1, 1, 8)) * 3 - 1
    return {"updated": lax.dynamic_update_slice(t, part, start)}


def update_outside(x):
    return update([1, 1, 31], x)


def update_inside(x):
    return update([1, 0, 25], x)


def update_plainly(x):
    t = x[:, 94]
    return {"updated": t.at[1, 0, 25:].set(t[0, 0, :8] * 3 - 1)}


REPORT = Report(
    link="https://github.com/openxla/xla/issues/49120",
    year=2026,
    versions="jax 0.11, CUDA",
    kind=Kind.MISCOMPILE,
    reported="a constant start of a dynamic update slice is not clamped by the copy that implements it",
    missed="the HLO is right; here the update is in a fusion, not in the reported copy, and an H200 computes it rightly",
    finds=Wrong(outputs=("updated",)),
)
ARGS = (Arg(shape=(3, 127, 1, 33)),)
BAD = Case(name="xla_49120", params=("bad",), function=update_outside, args=ARGS, reference=update_plainly)
CURED = Case(name="xla_49120", params=("cured",), function=update_inside, args=ARGS, reference=update_plainly)
CASES = (BAD, CURED)
