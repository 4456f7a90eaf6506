"""Sums over the stacks of several scans are fused into one kernel, so that all stacks are alive at once.

Structure: eight rounds; each scan stacks its states, the stack is summed over its last axis, and the sum is added to the
state of the next round.

The right answer: a round needs its own stack of 256 KiB, and it can be freed once its sum is there. If XLA puts the sums off
to compute them together, eight stacks are alive, 2 MiB: the lines of the scan and of the sum are to blame. The cured twin
makes a loop of the rounds.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE, ROUNDS = 256, 8


def accumulate(x, ones):
    return jax.lax.scan(lambda total, one: (total + one, total + one), x, ones)  # at: scan_line


def run(x):
    for _ in range(ROUNDS):
        x, stack = accumulate(x, jnp.ones(SIZE))
        x += jnp.sum(stack, axis=-1)  # at: sum_line
    return {"x": x}


def run_looped(x):
    def body(_, x):
        x, stack = accumulate(x, jnp.ones(SIZE))
        return x + jnp.sum(stack, axis=-1)

    return {"x": jax.lax.fori_loop(0, ROUNDS, body, x)}


REPORT = Report(
    link="https://github.com/openxla/xla/issues/27322",
    year=2025,
    versions="XLA of June 2025, GH200",
    kind=Kind.MEMORY_DRIFT,
    reported="horizontal fusion of sums keeps the stacks of many scans alive at once",
    finds=Wrong(at=("scan_line", "sum_line")),
)
BAD = Case(name="xla_27322", params=("bad",), function=run, args=(Arg(shape=(SIZE,)),))
CURED = Case(name="xla_27322", params=("cured",), function=run_looped, args=(Arg(shape=(SIZE,)),))
CASES = (BAD, CURED)
