"""A kernel needs more shared memory than the GPU has, which shows only when it is first run on the cluster.

Structure: a Pallas kernel multiplies a block of activations with a tile of the weight; the tile of 512 x 256 float32 alone
takes 512 KiB, and an H100 lends a kernel 227 KiB.

The right answer: the kernel cannot be compiled for an H100, and says so: the call is the line. The cured twin has tiles of
32 x 64.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

ROWS, INNER, COLUMNS = 128, 512, 256


def product_kernel(x_ref, w_ref, out_ref):
    out_ref[...] = jnp.dot(x_ref[...], w_ref[...])


def multiply(x, w, rows, columns):
    call = pl.pallas_call(
        product_kernel,
        grid=(ROWS // rows, COLUMNS // columns),
        in_specs=[
            pl.BlockSpec((rows, INNER), lambda i, j: (i, 0)),
            pl.BlockSpec((INNER, columns), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), x.dtype),
        compiler_params=pallas_triton.CompilerParams(num_warps=4, num_stages=1),
    )
    return {"out": call(x, w)}  # at: call_line


def multiply_large(x, w):
    return multiply(x, w, ROWS, COLUMNS)


def multiply_small(x, w):
    return multiply(x, w, 16, 32)


ARGS = (Arg(shape=(ROWS, INNER)), Arg(shape=(INNER, COLUMNS)))
REPORT = Report(
    link="https://github.com/marin-community/marin/pull/3160",
    year=2026,
    versions="jax 0.8, H100",
    kind=Kind.NO_COMPILE,
    reported="a fused cross entropy fails on the cluster, because a tile of the weight does not fit into shared memory",
    finds=Wrong(at=("call_line",)),
)
BAD = Case(name="marin_3160", params=("bad",), function=multiply_large, args=ARGS)
CURED = Case(name="marin_3160", params=("cured",), function=multiply_small, args=ARGS)
CASES = (BAD, CURED)
