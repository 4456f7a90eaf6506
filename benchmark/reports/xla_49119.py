"""A fusion with an update slice, a rotation and a padding computes other numbers on a GPU than on a CPU.

Structure: a reversed cumulative sum is cropped and padded, updated at three starts that are arguments, and rotated by a
fourth.

The right answer: that of the same operations one by one. The emitter of the fusion composes the index maps of the
update with the starts of another operand: elements of `rotated` near the update are wrong. The HLO is right; its
machine code is not.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def rotate(bar, x, start, shift):
    t = jnp.flip(jnp.cumsum(jnp.flip(x, 2), axis=2), 2)
    t = lax.pad(t, jnp.float32(0), [(-3, -1, 0), (1, 2, 0), (-2, -3, 0)])
    part = lax.dynamic_slice(t, [0, 0, 0], (14, 4, 7)) * 3 - 1
    t = bar(lax.dynamic_update_slice(t, part, [start[0], start[1], start[2]]))
    return {"rotated": jnp.roll(t, shift, axis=1)}


def rotate_fused(x, start, shift):
    return rotate(lambda t: t, x, start, shift)


def rotate_apart(x, start, shift):
    return rotate(lax.optimization_barrier, x, start, shift)


REPORT = Report(
    link="https://github.com/openxla/xla/issues/49119",
    year=2026,
    versions="jax 0.11, CUDA",
    kind=Kind.MISCOMPILE,
    reported="the index map of an update slice inside a fusion has the start of another operand",
    missed="the HLO is right and its machine code is not, which only a run on a GPU shows",
    finds=Wrong(outputs=("rotated",)),
)
ARGS = (Arg(shape=(33, 7, 16)), np.array([20, 5, 1], np.int32), np.int32(3))
BAD = Case(name="xla_49119", params=("bad",), function=rotate_fused, args=ARGS, reference=rotate_apart)
CURED = Case(name="xla_49119", params=("cured",), function=rotate_apart, args=ARGS, reference=rotate_apart)
CASES = (BAD, CURED)
