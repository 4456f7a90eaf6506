"""Readers beside a kernel: on their own stream, and in one command buffer with it."""

import jax
import jax.numpy as jnp
from doubling_kernel import Cases, double
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag import Arg

CASES = Cases()
ROWS, SHARED = Arg(shape=(16, 16)), Arg(shape=(16, 32))
CHUNKS = Arg(shape=(4, 64, 64))


@CASES.add(CHUNKS, Arg(shape=(64, 256)))
def stacked(chunks, w):
    def body(total, x):
        h = x @ w
        sums = double(h)
        return total + sums.sum(), h  # the author intends the doubled h

    total, kept = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "kept": kept}


def double_in_pallas(x_ref, sums_ref):
    x = x_ref[...]
    sums_ref[...] = jnp.sum(x, axis=1)
    x_ref[...] = 2 * x  # and no input_output_aliases


@CASES.add(ROWS, SHARED, mesh={"x": 1})  # a mesh tells Pallas which GPU it is for
def one_command_buffer(x, w):
    h = x @ w
    run = pl.pallas_call(
        double_in_pallas,
        out_shape=jax.ShapeDtypeStruct(h.shape[:1], h.dtype),
        compiler_params=pallas_triton.CompilerParams(),
    )
    sums = run(h)
    return {"sums": sums, "seen": jnp.tanh(h), "columns": h.sum(0), "other": x.sum(0)}
