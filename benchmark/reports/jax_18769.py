"""An optimizer that accumulates gradients over several steps needs twice the memory, because of a conditional.

Structure: a conditional chooses between a step in between, which adds the gradient to an accumulator and returns
weights and momentum unchanged, and a final step, which computes the new momentum and weights from the clipped
accumulator and clears it. The three arrays are donated.

The right answer: in either branch each array is computed elementwise from arrays at the same places, or not at all,
so all three can stay in their bytes. A copy of any of them (128 KiB each) in a branch, or bytes for a second set of
the branches' results, is superfluous; the conditional is to blame. The cured twin selects by factors instead of
branches.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def in_between(state, gradient):
    return {**state, "sum": state["sum"] + gradient}


def final(state, gradient):
    mean = (state["sum"] + gradient) / 4
    momentum = 0.9 * state["momentum"] + mean / jnp.maximum(1.0, jnp.linalg.norm(mean))
    return {"momentum": momentum, "sum": jnp.zeros_like(mean), "weights": state["weights"] - 0.1 * momentum}


def update(is_last, state, gradient):
    return jax.lax.cond(is_last, final, in_between, state, gradient)  # at: conditional_line


def update_by_factors(is_last, state, gradient):
    total = state["sum"] + gradient
    mean = total / 4
    clipped = mean / jnp.maximum(1.0, jnp.linalg.norm(mean))
    momentum = jnp.where(is_last, 0.9 * state["momentum"] + clipped, state["momentum"])
    weights = state["weights"] - jnp.where(is_last, 0.1, 0.0) * momentum
    return {"momentum": momentum, "sum": jnp.where(is_last, 0.0, total), "weights": weights}


STATE = {name: Arg(shape=(256, 128), donate=True) for name in ("momentum", "sum", "weights")}
ARGS = (Arg(shape=(), dtype="bool"), STATE, Arg(shape=(256, 128)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/18769",
    year=2023,
    versions="jax 0.4.7, TPU",
    kind=Kind.SILENT_COPY,
    reported="a conditional around an optimizer's step doubles the memory of the optimizer's state",
    finds=Wrong(at=("conditional_line",)),
    toolchain="jax-0.5.3",
)
BAD = Case(name="jax_18769", params=("bad",), function=update, args=ARGS)
CURED = Case(name="jax_18769", params=("cured",), function=update_by_factors, args=ARGS)
CASES = (BAD, CURED)
