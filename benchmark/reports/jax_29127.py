"""The derivative of a scan takes reads and writes of a Ref out of the loop.

Structure: the body of a scan makes a Ref of zeros, stores the sine of its input there and reads it back; the scan is
differentiated. Neither making the Ref nor reading it depends on the iteration.

The right answer: each iteration adds sin(x * w), so the loss is the sum of squares of those sums, with its gradient. If the
read leaves the loop, it comes before all stores and gives zeros: `loss` and `gradient` are stale. The cured twin makes the
Ref of a value of the iteration, which keeps it in the loop.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

STEPS, SIZE = 3, 64


def train(make, chunks, weight):
    def write_and_read(x):
        cell = jax.new_ref(make(x))
        cell[...] = jnp.sin(x)
        return cell[...]

    sine = jax.custom_vjp(write_and_read)
    sine.defvjp(lambda x: (write_and_read(x), x), lambda x, cotangent: (cotangent * jnp.cos(x),))

    def compute_loss(weight):
        total, _ = jax.lax.scan(lambda total, x: (total + sine(x * weight), None), jnp.zeros(SIZE), chunks)
        return (total**2).sum()

    loss, gradient = jax.value_and_grad(compute_loss)(weight)
    return {"gradient": gradient, "loss": loss}


def train_zeros(chunks, weight):
    return train(jnp.zeros_like, chunks, weight)


def train_own(chunks, weight):
    return train(lambda x: 0.0 * x, chunks, weight)


def reference(chunks, weight):
    total = jnp.sin(chunks * weight).sum(0)
    return {"gradient": (2.0 * total * (jnp.cos(chunks * weight) * chunks)).sum(0), "loss": (total**2).sum()}


ARGS = (Arg(shape=(STEPS, SIZE)), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/29127",
    year=2025,
    versions="jax 0.6.1",
    kind=Kind.MOVED_BY_JAX,
    reported="the derivative of a scan hoists operations on mutable arrays out of the loop",
    finds=Wrong(outputs=("gradient", "loss"), kinds=(Kind.MOVED_BY_JAX, Kind.STALE)),
)
BAD = Case(name="jax_29127", params=("bad",), function=train_zeros, args=ARGS, reference=reference)
CURED = Case(name="jax_29127", params=("cured",), function=train_own, args=ARGS, reference=reference)
CASES = (BAD, CURED)
