"""A loop becomes ten thousand times faster once a value that both branches of a conditional return is computed outside.

Structure: as in jax-ml/jax#16661, but the difference is the index: both branches return the counter, and the second array is
written at the returned index. If the counter itself is used, nothing is copied.

The right answer: both arrays have one version at a time, and each iteration writes one element in place. Copies of 128 KiB
in the loop are superfluous. The cured twin is the report's own: index and flag are hoisted out of the conditional, and the
branch that leaves the array alone comes first.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def run(levels, marks):
    def body(carry):
        count, levels, marks = carry
        leave = lambda count, levels: (True, count, levels)  # noqa: E731
        write = lambda count, levels: (True, count, levels.at[0].set(0.0))  # noqa: E731
        save, index, levels = jax.lax.cond(count % 3 != 0, write, leave, count, levels)  # at: conditional_line
        value = jnp.where(save, 1.0 * count, marks[index])
        return count + 1, levels, jax.lax.dynamic_update_index_in_dim(marks, value, index, axis=0)

    _, levels, marks = jax.lax.while_loop(lambda carry: carry[0] < 64, body, (0, levels, marks))  # at: loop_line
    return {"arrays": (levels, marks)}


def run_hoisted(levels, marks):
    def body(carry):
        count, levels, marks = carry
        branches = [lambda levels: levels, lambda levels: levels.at[0].set(0.0)]
        levels = jax.lax.switch((count % 3 != 0).astype("int32"), branches, levels)
        return count + 1, levels, jax.lax.dynamic_update_index_in_dim(marks, 1.0 * count, count, axis=0)

    _, levels, marks = jax.lax.while_loop(lambda carry: carry[0] < 64, body, (0, levels, marks))
    return {"arrays": (levels, marks)}


ARGS = (Arg(shape=(32768,), donate=True), Arg(shape=(32768,), donate=True))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/16663",
    year=2023,
    versions="jax 0.4.13, CPU",
    kind=Kind.SILENT_COPY,
    reported="a loop is slow unless values that both branches return are computed outside of the conditional",
    finds=Wrong(at=("conditional_line", "loop_line")),
    toolchain="0.10",
)
BAD = Case(name="jax_16663", params=("bad",), function=run, args=ARGS)
CURED = Case(name="jax_16663", params=("cured",), function=run_hoisted, args=ARGS)
CASES = (BAD, CURED)
