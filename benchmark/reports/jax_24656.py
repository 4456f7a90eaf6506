"""A Pallas kernel adds into one of its input references, and the caller looks at that input afterwards.

Structure: the kernel stores `x + y` through the reference of `y`; its only declared output is never stored. The
program reads `y` after the call.

The right answer: the author means `y` to hold `x + y` after the call, so `twice` should be `2 * (x + y)`. XLA knows
of no write to `y`, so it may read it before the call, or from elsewhere: `twice` is stale, or right by luck only. The
declared output holds arbitrary bytes, because the kernel never stores it. The cured twin aliases the output to `y`.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE = 256


def add_inplace_kernel(x_ref, y_ref, out_ref):
    y_ref[...] = x_ref[...] + y_ref[...]


def add_declared_kernel(x_ref, y_ref, out_ref):
    out_ref[...] = x_ref[...] + y_ref[...]


def call(kernel, x, y, aliases):
    shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
    params = pallas_triton.CompilerParams(num_warps=1)
    return pl.pallas_call(kernel, out_shape=shape, input_output_aliases=aliases, compiler_params=params)(x, y)


def add_hidden(x, y):
    y = jnp.sin(y)
    out = call(add_inplace_kernel, x, y, {})
    return {"out": out, "twice": 2.0 * y}


def add_declared(x, y):
    y = call(add_declared_kernel, x, jnp.sin(y), {1: 0})
    return {"out": y, "twice": 2.0 * y}


def reference(x, y):
    return {"out": x + jnp.sin(y), "twice": 2.0 * (x + jnp.sin(y))}


ARGS = (Arg(shape=(SIZE,)), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/24656",
    year=2024,
    versions="jax 0.4.35, GPU",
    kind=Kind.STALE,
    reported="a kernel that stores into its input reference leaves the caller's array as it was",
    finds=Wrong(outputs=("twice",)),
)
BAD = Case(name="jax_24656", params=("bad",), function=add_hidden, args=ARGS)
CURED = Case(name="jax_24656", params=("cured",), function=add_declared, args=ARGS, reference=reference)
CASES = (BAD, CURED)
