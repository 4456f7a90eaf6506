"""Donation that silently stops to work should be an error: a small change of an output makes it void.

Structure: a state is donated and returned with one more row, so that no output has its shape any more.

The right answer: the argument has 256 rows and the output 257: nothing can take the argument's 128 KiB, and the donation is
void. The line that makes the output is to blame. The cured twin overwrites the oldest row.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def append(state, row):
    return {"state": jnp.concatenate([2.0 * state, row[None]])}  # at: append_line


def replace(state, row):
    return {"state": (2.0 * state).at[0].set(row)}


ARGS = (Arg(shape=(256, 128), donate=True), Arg(shape=(128,)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/9675",
    year=2022,
    versions="jax 0.3.0",
    kind=Kind.VOID_DONATION,
    reported="a donated buffer that is not reused gives a gentle warning where the author wants an error",
    finds=Wrong(at=("append_line",)),
)
BAD = Case(name="jax_9675", params=("bad",), function=append, args=ARGS)
CURED = Case(name="jax_9675", params=("cured",), function=replace, args=ARGS)
CASES = (BAD, CURED)
