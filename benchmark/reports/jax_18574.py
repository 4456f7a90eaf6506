"""A gradient kernel scatters into an output by atomic additions, and Pallas does not clear outputs.

Structure: each program of a Pallas grid adds a block of cotangents to rows of the output that an index array names.

The right answer: row r is the sum of the blocks whose index is r, starting from zero. Nobody writes the zeros, so every
element that is added to starts from arbitrary bytes, and rows that no index names are never written: `gradient` is
arbitrary. The cured twin aliases the output to zeros.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

ROWS, COLUMNS, COUNT = 16, 32, 8


def scatter_kernel(index_ref, block_ref, out_ref):
    row = index_ref[pl.program_id(0)]
    pallas_triton.atomic_add(out_ref, (row, slice(None)), block_ref[pl.program_id(0), :])


def scatter_zeros_kernel(index_ref, block_ref, zeros_ref, out_ref):
    scatter_kernel(index_ref, block_ref, out_ref)


SHAPE = jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32")
PARAMS = pallas_triton.CompilerParams(num_warps=1)


def scatter(index, blocks):
    call = pl.pallas_call(scatter_kernel, grid=(COUNT,), out_shape=SHAPE, compiler_params=PARAMS)
    return {"gradient": call(index, blocks)}


def scatter_zeros(index, blocks):
    aliases = {2: 0}
    call = pl.pallas_call(
        scatter_zeros_kernel, grid=(COUNT,), out_shape=SHAPE, input_output_aliases=aliases, compiler_params=PARAMS
    )
    return {"gradient": call(index, blocks, jnp.zeros((ROWS, COLUMNS)))}


INDEX = Arg(shape=(COUNT,), dtype="int32", draw=Draw(kind="randint", low=0, high=ROWS))
ARGS = (INDEX, Arg(shape=(COUNT, COLUMNS)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/18574",
    year=2023,
    versions="jax 0.4.20, GPU",
    kind=Kind.UNWRITTEN_READ,
    reported="outputs of pallas_call are not zeros, which breaks gradients that are scattered by atomic additions",
    finds=Wrong(outputs=("gradient",)),
)
BAD = Case(name="jax_18574", params=("bad",), function=scatter, args=ARGS)
CURED = Case(name="jax_18574", params=("cured",), function=scatter_zeros, args=ARGS)
CASES = (BAD, CURED)
