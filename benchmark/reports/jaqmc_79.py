"""A Monte Carlo code met donated buffers that get mixed up: its statistics are wrong if they are returned before the
state.

Structure: a step updates the walkers, returns three scalars of its donated state as they are, and three equal
statistics before them; with fewer than three of each the linked report saw nothing.

The right answer: the statistics are the mean of the energy, and the kept parts are the arguments. A statistic that
takes the donated buffer of a kept part, or a part that takes another's, is wrong.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def step(walkers, *kept):
    energy = jnp.square(walkers).sum(-1)
    mean = energy.mean()
    return (mean, mean, mean), (walkers + 0.1 * energy[:, None], *kept)


def return_statistics_first(walkers, *kept):
    statistics, state = step(walkers, *kept)
    return {"statistics": statistics, "walk": state}


def return_state_first(walkers, *kept):
    statistics, state = step(walkers, *kept)
    return {"a_walk": state, "statistics": statistics}


REPORT = Report(
    link="https://github.com/bytedance/jaqmc/pull/79",
    year=2026,
    versions="jax 0.8 and newer, CUDA",
    kind=Kind.SHARED_BYTES,
    reported="statistics returned before a donated state are corrupted on GPUs",
    finds=Wrong(
        outputs=("statistics.0", "statistics.1", "statistics.2", "walk.1", "walk.2", "walk.3"),
        kinds=(Kind.SHARED_BYTES, Kind.MISCOMPILE),
    ),
    revised=(
        "the program had two scalars, and the report says that "
        "fewer than three show nothing; the outputs got other names"
    ),
)
ARGS = (Arg(shape=(16, 8), donate=True), *(Arg(shape=(), donate=True) for _ in range(3)))
BAD = Case(name="jaqmc_79", params=("bad",), function=return_statistics_first, args=ARGS)
CURED = Case(name="jaqmc_79", params=("cured",), function=return_state_first, args=ARGS)
CASES = (BAD, CURED)
