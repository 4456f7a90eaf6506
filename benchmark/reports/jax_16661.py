"""Swapping the two branches of a conditional changes the time of a loop from microseconds to a second.

Structure: a while loop carries a counter and two arrays. The conditional returns an index, a flag and the first array, which
one branch leaves alone and the other one writes; the index is then used to write one element of the second array.

The right answer: neither array is ever needed in two versions at once: each iteration writes at most one element of each in
place. A copy of either array (128 KiB) in the loop is superfluous, in whatever order the branches stand. The cured twin is
the same loop with the conditional only around the element that is written.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def leave(count, levels):
    return True, count, levels


def write(count, levels):
    return True, count, levels.at[0].set(0.0)


def run(levels, marks):
    def body(carry):
        count, levels, marks = carry
        save, index, levels = jax.lax.cond(count >= 200, write, leave, count, levels)  # at: conditional_line
        value = jnp.where(save, 1.0 * count, marks[index])
        return count + 1, levels, jax.lax.dynamic_update_index_in_dim(marks, value, index, axis=0)

    _, levels, marks = jax.lax.while_loop(lambda carry: carry[0] < 64, body, (0, levels, marks))  # at: loop_line
    return {"arrays": (levels, marks)}


def run_selected(levels, marks):
    def body(carry):
        count, levels, marks = carry
        levels = levels.at[0].set(jnp.where(count < 200, levels[0], 0.0))
        return count + 1, levels, jax.lax.dynamic_update_index_in_dim(marks, 1.0 * count, count, axis=0)

    _, levels, marks = jax.lax.while_loop(lambda carry: carry[0] < 64, body, (0, levels, marks))
    return {"arrays": (levels, marks)}


ARGS = (Arg(shape=(32768,), donate=True), Arg(shape=(32768,), donate=True))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/16661",
    year=2023,
    versions="jax 0.4.13, CPU",
    kind=Kind.SILENT_COPY,
    reported="the order of a conditional's branches decides whether a loop copies an array in every iteration",
    finds=Wrong(at=("conditional_line", "loop_line")),
    toolchain="0.10",
)
BAD = Case(name="jax_16661", params=("bad",), function=run, args=ARGS)
CURED = Case(name="jax_16661", params=("cured",), function=run_selected, args=ARGS)
CASES = (BAD, CURED)
