"""A Pallas kernel that adds each block to its output by load and store, onto whatever was there.

Structure: the successor of jax-ml/jax#18574, which asks for outputs that start as zeros. One program loops over the blocks
of its input and adds each to the output.

The right answer: the sum of the blocks over the first axis. The first addition loads an output that nobody has written, so
`total` is arbitrary in every element. The cured twin stores the first block before it adds the others.
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

BLOCKS, SIZE = 4, 64


def add_blocks_kernel(x_ref, out_ref):
    def body(block, carry):
        out_ref[...] += x_ref[block, :]
        return carry

    jax.lax.fori_loop(0, BLOCKS, body, 0)


def add_after_first_kernel(x_ref, out_ref):
    out_ref[...] = x_ref[0, :]

    def body(block, carry):
        out_ref[...] += x_ref[block, :]
        return carry

    jax.lax.fori_loop(1, BLOCKS, body, 0)


def total(kernel, x):
    shape = jax.ShapeDtypeStruct((SIZE,), x.dtype)
    return {
        "total": pl.pallas_call(kernel, out_shape=shape, compiler_params=pallas_triton.CompilerParams(num_warps=1))(x)
    }


def add_blocks(x):
    return total(add_blocks_kernel, x)


def add_after_first(x):
    return total(add_after_first_kernel, x)


REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/19399",
    year=2024,
    versions="jax 0.4.23, GPU",
    kind=Kind.UNWRITTEN_READ,
    reported="kernels that accumulate into an output of pallas_call need it to be zero, and it is not",
    finds=Wrong(outputs=("total",)),
)
BAD = Case(name="jax_19399", params=("bad",), function=add_blocks, args=(Arg(shape=(BLOCKS, SIZE)),))
CURED = Case(
    name="jax_19399",
    params=("cured",),
    function=add_after_first,
    args=(Arg(shape=(BLOCKS, SIZE)),),
    reference=lambda x: {"total": x.sum(0)},
)
CASES = (BAD, CURED)
