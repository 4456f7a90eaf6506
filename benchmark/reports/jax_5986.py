"""A conditional is many times slower inside of a scan than outside, because the scan's state is copied for it.

Structure: a scan over flags carries one array; where the flag is set, one row of it is written.

The right answer: a row of the state is written in place, or nothing happens. Neither needs a copy of the state (128 KiB) in
each iteration: any copy at the conditional or of the loop's carry is superfluous. The cured twin writes the row always, and
selects between the new row and the old one.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def fill(state, rows, flags):
    def body(state, item):
        number, row, flag = item
        put = lambda state: state.at[number].set(row)  # noqa: E731
        return jax.lax.cond(flag, put, lambda state: state, state), None  # at: conditional_line

    return {"state": jax.lax.scan(body, state, (jnp.arange(16), rows, flags))[0]}  # at: loop


def fill_selected(state, rows, flags):
    def body(state, item):
        number, row, flag = item
        return state.at[number].set(jnp.where(flag, row, state[number])), None

    return {"state": jax.lax.scan(body, state, (jnp.arange(16), rows, flags))[0]}


ARGS = (Arg(shape=(256, 128), donate=True), Arg(shape=(16, 128)), Arg(shape=(16,), dtype="bool"))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/5986",
    year=2021,
    versions="jax 0.2 to 0.11.0, GPU",
    kind=Kind.SILENT_COPY,
    reported="a conditional inside of a scan is much slower than outside of it",
    finds=Wrong(at=("conditional_line", "loop")),
    toolchain="0.10",
)
BAD = Case(name="jax_5986", params=("bad",), function=fill, args=ARGS)
CURED = Case(name="jax_5986", params=("cured",), function=fill_selected, args=ARGS)
CASES = (BAD, CURED)
