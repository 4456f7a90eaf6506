"""One kernel function is called with two grids, and the second call computes with the size of the first grid.

Structure: a Pallas kernel stores `x` divided by the number of its programs, in place; it is called with a grid of 2, then,
on other data of the same block shape, with a grid of 4. JAX traces the kernel once.

The right answer: `first` is a / 2 and `second` b / 4. If the number of programs is remembered from the first call, `second`
is b / 2. Program and schedule then agree on the wrong number, so only the reference shows it. The cured twin passes the
number as an argument.
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

BLOCK = 64


def share_kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...] / pl.num_programs(0)


def share_given_kernel(x_ref, out_ref, programs):
    out_ref[...] = x_ref[...] / programs


def share(kernel, x):
    block = pl.BlockSpec((BLOCK,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        grid=(x.size // BLOCK,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        compiler_params=pallas_triton.CompilerParams(num_warps=1),
    )(x)


def run(a, b):
    return {"first": share(share_kernel, jnp.sin(a)), "second": share(share_kernel, jnp.sin(b))}


def run_given(a, b):
    first, second = (functools.partial(share_given_kernel, programs=x.size // BLOCK) for x in (a, b))
    return {"first": share(first, jnp.sin(a)), "second": share(second, jnp.sin(b))}


def reference(a, b):
    return {"first": jnp.sin(a) / 2.0, "second": jnp.sin(b) / 4.0}


ARGS = (Arg(shape=(2 * BLOCK,)), Arg(shape=(4 * BLOCK,)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/40847",
    year=2026,
    versions="jax 0.11.0 to 0.11.2; not 0.10.2",
    kind=Kind.MISCOMPILE,
    reported="a kernel function that is used with several grids sees the size of an earlier grid",
    finds=Wrong(outputs=("second",)),
)
BAD = Case(name="jax_40847", params=("bad",), function=run, args=ARGS, reference=reference)
CURED = Case(name="jax_40847", params=("cured",), function=run_given, args=ARGS, reference=reference)
CASES = (BAD, CURED)
