"""A Monte Carlo code met donated buffers that get mixed up: its statistics are wrong if they are returned before the
state.

Structure: a step updates one part of a donated state, returns two parts as they are, and several equal statistics
before them.

The right answer: the statistics are the mean of the energy, and the kept parts are the arguments. A statistic that
takes the donated buffer of a kept part is wrong: `mean_1`, `mean_2`, or a part of the state.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def step(walkers, width, seed):
    energy = jnp.square(walkers).sum(-1)
    return energy.mean(), walkers + 0.1 * energy[:, None], width, seed


def return_statistics_first(walkers, width, seed):
    mean, walkers, width, seed = step(walkers, width, seed)
    return {"mean_1": mean, "mean_2": mean, "state_1": walkers, "state_2": width, "state_3": seed}


def return_state_first(walkers, width, seed):
    mean, walkers, width, seed = step(walkers, width, seed)
    return {"a_state_1": walkers, "a_state_2": width, "a_state_3": seed, "mean_1": mean, "mean_2": mean}


REPORT = Report(
    link="https://github.com/bytedance/jaqmc/pull/79",
    year=2026,
    versions="jax 0.8 and newer, CUDA",
    kind=Kind.SHARED_BYTES,
    reported="statistics returned before a donated state are corrupted on GPUs",
    finds=Wrong(outputs=("mean_1", "mean_2", "state_2", "state_3"), kinds=(Kind.SHARED_BYTES, Kind.MISCOMPILE)),
)
ARGS = (Arg(shape=(16, 8), donate=True), Arg(shape=(), donate=True), Arg(shape=(), donate=True))
BAD = Case(name="jaqmc_79", params=("bad",), function=return_statistics_first, args=ARGS)
CURED = Case(name="jaqmc_79", params=("cured",), function=return_state_first, args=ARGS)
CASES = (BAD, CURED)
