"""A function whose kernel updates its argument is exported to JAX, and the update is thrown away.

Structure: the Pallas call aliases its output to its operand, as it should, but the wrapper drops the output and works
on with the name of the operand.

The right answer: the author means `x + 1` wherever `x` is read after the call, so `twice` should be `2 * (x + 1)`. In
JAX the name still has the old contents: whatever the schedule, `twice` is stale. The call whose new contents nobody
uses is the line. The cured twin returns the output and uses it.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE = 256


def increment_kernel(x_ref, out_ref, sum_ref):
    new = x_ref[...] + 1.0
    out_ref[...] = new
    sum_ref[...] = jnp.sum(new)[None]


def increment(x):
    shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((1,), x.dtype))
    params = pallas_triton.CompilerParams(num_warps=1)
    return pl.pallas_call(  # at: call
        increment_kernel, out_shape=shapes, input_output_aliases={0: 0}, compiler_params=params
    )(x)


def export_dropping(x):
    x = jnp.sin(x)
    _, total = increment(x)
    return {"total": total[0], "twice": 2.0 * x}


def export_returning(x):
    x, total = increment(jnp.sin(x))
    return {"total": total[0], "twice": 2.0 * x}


def reference(x):
    x = jnp.sin(x) + 1.0
    return {"total": x.sum(), "twice": 2.0 * x}


ARGS = (Arg(shape=(SIZE,)),)
REPORT = Report(
    link="https://github.com/pytorch/helion/pull/3329",
    year=2026,
    versions="helion of August 2026",
    kind=Kind.STALE,
    reported="an exported function discards the result of a kernel that updates its input",
    finds=Wrong(outputs=("twice",), at=("call",)),
)
BAD = Case(name="helion_3329", params=("bad",), function=export_dropping, args=ARGS)
CURED = Case(name="helion_3329", params=("cured",), function=export_returning, args=ARGS, reference=reference)
CASES = (BAD, CURED)
