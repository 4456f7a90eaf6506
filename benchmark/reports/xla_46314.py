"""The change that makes copy elision around a conditional independent of the position of the branch.

Structure: a conditional of three branches; the second one forwards both of its operands, the others write a row of each.
Before the change a branch that forwards its operands loses their aliasing unless it is the first one: a copy in each branch
and one at the caller.

The right answer: every branch can leave its results in the bytes of the operands, which are donated. Each copy of an operand
(128 KiB) is superfluous. The cured twin has the forwarding branch first.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def first_row(keys, values):
    return keys.at[0].set(1.0), values.at[0].set(2.0)


def last_row(keys, values):
    return keys.at[-1].set(3.0), values.at[-1].set(4.0)


def forward(keys, values):
    return keys, values


def choose(number, keys, values):
    keys, values = jax.lax.switch(number, [first_row, forward, last_row], keys, values)  # at: conditional_line
    return {"arrays": (keys, values)}


def choose_rows(number, keys, values):
    row, keep = jnp.where(number == 0, 0, keys.shape[0] - 1), number == 1
    keys = keys.at[row].set(jnp.where(keep, keys[row], jnp.where(number == 0, 1.0, 3.0)))
    values = values.at[row].set(jnp.where(keep, values[row], jnp.where(number == 0, 2.0, 4.0)))
    return {"arrays": (keys, values)}


ARRAY = Arg(shape=(256, 128), donate=True)
ARGS = (Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=0, high=3)), ARRAY, ARRAY)
REPORT = Report(
    link="https://github.com/openxla/xla/pull/46314",
    year=2026,
    versions="XLA before July 2026, in jaxlib 0.11.0 and older",
    kind=Kind.SILENT_COPY,
    reported="a branch that forwards its operands is copied for unless it is the first branch of the conditional",
    finds=Wrong(at=("conditional_line",)),
    toolchain="0.10",
)
BAD = Case(name="xla_46314", params=("bad",), function=choose, args=ARGS)
CURED = Case(name="xla_46314", params=("cured",), function=choose_rows, args=ARGS)
CASES = (BAD, CURED)
