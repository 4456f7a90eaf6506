"""Rematerialization in two levels saves memory with an old JAX and runs out of it with a new one.

Structure: 64 steps of an elementwise recurrence, as 8 blocks of 8; the step and the block are under `jax.remat`, and the
gradient of the whole is taken.

The right answer: the derivative needs the state at the start of each block, and of each step of one block: 16 states of
32 KiB, and some for the step itself. 64 saved states, 2 MiB, are too many; the lines of the recurrence are to blame. The
cured twin computes the same by a scan over blocks.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

BLOCKS, STEPS, SIZE = 8, 8, 8192


def advance(carry, _):
    x, rate = carry
    a = jnp.sin(rate * x)  # at: sine
    return (x + a + jnp.cos(rate * a), rate), None  # at: step


def run_block(carry):
    return jax.lax.scan(jax.remat(advance), carry, None, length=STEPS)[0]  # at: block_line


def train(rate, start):
    def compute_loss(rate):
        carry = (start, rate)
        for _ in range(BLOCKS):
            carry = jax.remat(run_block)(carry)  # at: blocks_line
        return carry[0].sum()

    loss, gradient = jax.value_and_grad(compute_loss)(rate)
    return {"gradient": gradient, "loss": loss}


def train_scanned(rate, start):
    def compute_loss(rate):
        block = jax.checkpoint(lambda carry, _: (run_block(carry), None))
        return jax.lax.scan(block, (start, rate), None, length=BLOCKS)[0][0].sum()

    loss, gradient = jax.value_and_grad(compute_loss)(rate)
    return {"gradient": gradient, "loss": loss}


ARGS = (Arg(shape=()), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/27748",
    year=2025,
    versions="jax 0.5.3, GPU; not 0.4.13",
    kind=Kind.MEMORY_DRIFT,
    reported="rematerialization of blocks of a scan does not reduce memory any more",
    finds=Wrong(at=("sine", "step", "block_line", "blocks_line")),
)
BAD = Case(name="jax_27748", params=("bad",), function=train, args=ARGS)
CURED = Case(name="jax_27748", params=("cured",), function=train_scanned, args=ARGS)
CASES = (BAD, CURED)
