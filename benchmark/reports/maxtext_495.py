"""An optimizer's state is kept in bfloat16 and comes back in float32: its donation is void.

Structure: Adam with a decay that is corrected for bias; the corrected decay is a float32 scalar array, so moments in
bfloat16 become float32 in the update.

The right answer: the new moments have the shapes of the old ones and another dtype, so they cannot take the donated bytes
(64 KiB each): both donations are void, and the lines that compute the new moments are to blame. The weights are updated in
place. The cured twin casts the moments back.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def corrected(decay, count):
    power = decay ** count.astype(jnp.float32)
    return decay * (1.0 - power / decay) / (1.0 - power)


def update(mean, square, weights, gradient, count):
    first, second = corrected(0.9, count), corrected(0.999, count)
    mean = first * mean + (1.0 - first) * gradient  # at: mean_line
    square = second * square + (1.0 - second) * gradient**2  # at: square_line
    weights = weights - (0.001 * mean / (jnp.sqrt(square) + 1e-8)).astype(weights.dtype)
    return {"state": (mean, square, weights)}


def update_cast(mean, square, weights, gradient, count):
    first, second, weights = update(mean, square, weights, gradient, count)["state"]
    return {"state": (first.astype(mean.dtype), second.astype(square.dtype), weights)}


STATE = Arg(shape=(256, 128), dtype="bfloat16", donate=True)
SQUARE = Arg(shape=(256, 128), dtype="bfloat16", donate=True, draw=Draw(kind="squares"))
COUNT = Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=2, high=9))
ARGS = (STATE, SQUARE, STATE, Arg(shape=(256, 128), dtype="bfloat16"), COUNT)
REPORT = Report(
    link="https://github.com/AI-Hypercomputer/maxtext/pull/495",
    year=2024,
    versions="MaxText of March 2024",
    kind=Kind.VOID_DONATION,
    reported="the optimizer returns its bfloat16 state in float32, so the donated state is not usable",
    finds=Wrong(at=("mean_line", "square_line")),
)
BAD = Case(name="maxtext_495", params=("bad",), function=update, args=ARGS)
CURED = Case(name="maxtext_495", params=("cured",), function=update_cast, args=ARGS)
CASES = (BAD, CURED)
