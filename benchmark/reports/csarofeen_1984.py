"""One output of a fused kernel is declared to be aliased to two inputs, and one of the two is ignored.

Structure: a kernel multiplies two arrays; its single output is aliased to both.

The right answer: the product of cos(a) and exp(b). Three values that are alive at once are to share bytes, so one operand
overwrites the other before the kernel reads it: `product` is wrong in any schedule that does as declared. The cured twin
aliases the output to the first operand only.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE = 512


def multiply_kernel(a_ref, b_ref, product_ref):
    product_ref[...] = a_ref[...] * b_ref[...]


def multiply(a, b, aliases):
    shape = jax.ShapeDtypeStruct(a.shape, a.dtype)
    params = pallas_triton.CompilerParams(num_warps=1)
    call = pl.pallas_call(multiply_kernel, out_shape=shape, input_output_aliases=aliases, compiler_params=params)
    return {"product": call(jnp.cos(a), jnp.exp(b))}  # at: call_line


def multiply_both(a, b):
    return multiply(a, b, {0: 0, 1: 0})


def multiply_one(a, b):
    return multiply(a, b, {0: 0})


def reference(a, b):
    return {"product": jnp.cos(a) * jnp.exp(b)}


ARGS = (Arg(shape=(SIZE,)), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/csarofeen/pytorch/issues/1984",
    year=2022,
    versions="nvFuser of 2022",
    kind=Kind.SHARED_BYTES,
    reported="of two aliases of one output, one is ignored without a word",
    finds=Wrong(
        outputs=("product",), at=("call_line",), kinds=(Kind.SHARED_BYTES, Kind.CLOBBERED, Kind.WRONG_DECLARATION)
    ),
)
BAD = Case(name="csarofeen_1984", params=("bad",), function=multiply_both, args=ARGS, reference=reference)
CURED = Case(name="csarofeen_1984", params=("cured",), function=multiply_one, args=ARGS, reference=reference)
CASES = (BAD, CURED)
