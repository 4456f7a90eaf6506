"""A conditional that either writes one row of a donated array or does nothing copies the whole array.

Structure: `lax.cond` with a branch that sets a row and a branch that returns the array, under `jit` with the array donated.
Which position of the empty branch costs the copy depends on the version; here the empty branch is the last one, as in the
report's `cond_noop_last`, which copies in jaxlib 0.7.2 to 0.11.0.

The right answer: both branches can leave their result in the bytes of the argument, so no byte but those of the row has to
move. Any copy of the whole array, 128 KiB, is superfluous; the conditional is the line that causes it. `lax.switch` with
the empty branch first copies in no version, says the report: it is the cured twin.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def write_unless(p, x):
    return {"x": jax.lax.cond(p, lambda x: x.at[0].set(1.0), lambda x: x, x)}  # at: conditional_line


def write_by_switch(p, x):
    return {"x": jax.lax.switch(p.astype("int32"), [lambda x: x, lambda x: x.at[0].set(1.0)], x)}


ARGS = (Arg(shape=(), dtype="bool"), Arg(shape=(256, 128), donate=True))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39449",
    year=2026,
    versions="jaxlib 0.6 to 0.11.0, CPU and GPU",
    kind=Kind.SILENT_COPY,
    reported="a conditional write with an empty other branch is out of place, depending on the order of the branches",
    finds=Wrong(at=("conditional_line",)),
    toolchain="0.10",
)
BAD = Case(name="jax_39449", params=("bad",), function=write_unless, args=ARGS)
CURED = Case(name="jax_39449", params=("cured",), function=write_by_switch, args=ARGS)
CASES = (BAD, CURED)
