"""Of an output of four elements a Pallas kernel stores those from 1 to 3; the others hold anything.

Structure: a kernel multiplies a range of `x` by `y` and stores that range only; the output has no alias.

The right answer: x outside of the range. The output is new memory, in which elements 0 and 3 are never written:
`product` is undefined there.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def multiply_kernel(x_ref, y_ref, product_ref):
    product_ref[pl.ds(2, 4)] = x_ref[pl.ds(2, 4)] * y_ref[pl.ds(2, 4)]


def multiply(aliases, x, y):
    call = pl.pallas_call(
        multiply_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases=aliases,
        compiler_params=triton.CompilerParams(num_warps=1),
    )
    return {"product": call(x, y) + 1.0}  # at: call


def multiply_part(x, y):
    return multiply({}, x, y)


def multiply_in_place(x, y):
    return multiply({0: 0}, jnp.sin(x), y)


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/20227",
    year=2024,
    versions="jax 0.4.25",
    kind=Kind.UNWRITTEN_READ,
    reported="elements of an output that a Pallas kernel does not store are arbitrary",
    finds=Wrong(outputs=("product",), at=("call",)),
)
ARGS = (Arg(shape=(8,)), Arg(shape=(8,)))
BAD = Case(name="jax_20227", params=("bad",), function=multiply_part, args=ARGS)
CURED = Case(name="jax_20227", params=("cured",), function=multiply_in_place, args=ARGS)
CASES = (BAD, CURED)
