"""A donated array is no longer updated in place if a loop reads a value between two updates.

Structure: an expensive elementwise update of the donated array, a loop that reads single elements of the result, and
another elementwise update, which is the output.

The right answer: both updates can be computed in the bytes of the argument (128 KiB), because the loop only reads in
between. All else that the program needs are scalars, so a second array is superfluous: it is made by the first
update, and kept for the loop. The cured twin computes the elements that the loop reads from the argument, so that one
update is left.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE = 32768


def step(x):
    y = jnp.exp(x)  # at: first
    total = jax.lax.fori_loop(0, 8, lambda i, total: total + y[i * (SIZE // 8)], 0.0)  # at: loop_line
    return {"y": y + total}  # at: second_line


def step_apart(x):
    total = jax.lax.fori_loop(0, 8, lambda i, total: total + jnp.exp(x[i * (SIZE // 8)]), 0.0)
    return {"y": jnp.exp(x) + total}


ARGS = (Arg(shape=(SIZE,), donate=True),)
REPORT = Report(
    link="https://github.com/openxla/xla/issues/45912",
    year=2026,
    versions="jaxlib 0.7.2 to 0.11.0, CPU and GPU; not 0.7.1",
    kind=Kind.MEMORY_DRIFT,
    reported="an update in two parts with a loop between them needs a second array since jaxlib 0.7.2",
    finds=Wrong(at=("first", "loop_line", "second_line"), kinds=(Kind.MEMORY_DRIFT, Kind.SILENT_COPY)),
    toolchain="0.10",
    revised="the loop, which the report's title blames, was added as a place",
)
BAD = Case(name="xla_45912", params=("bad",), function=step, args=ARGS)
CURED = Case(name="xla_45912", params=("cured",), function=step_apart, args=ARGS)
CASES = (BAD, CURED)
