"""A kernel that works in place is called without its alias: the result is computed elsewhere and copied back.

Structure: the argument is donated and its new value returned, but the Pallas call does not say that its output aliases its
operand. XLA has to keep both while the kernel runs.

The right answer: the kernel reads and writes element by element, so one buffer is enough. Since the call declares two, the
result lies in other bytes than the donated argument until a copy of 128 KiB brings it there (or brings the argument away):
that copy is superfluous, and the call is to blame. The cured twin declares the alias.
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def increment_kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...] + 1.0


def increment(x, aliases):
    block = pl.BlockSpec((16, 128), lambda i: (i, 0))
    return pl.pallas_call(  # at: call
        increment_kernel,
        grid=(x.shape[0] // 16,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases=aliases,
        compiler_params=pallas_triton.CompilerParams(),
    )(x)


def step(x):
    return {"x": increment(x, {})}


def step_aliased(x):
    return {"x": increment(x, {0: 0})}


ARGS = (Arg(shape=(256, 128), donate=True),)
REPORT = Report(
    link="https://github.com/pytorch/helion/pull/2351",
    year=2026,
    versions="helion on torch_tpu",
    kind=Kind.SILENT_COPY,
    reported="aliases of kernels are replaced by donation and an explicit copy back, which the author calls inefficient",
    finds=Wrong(at=("call",)),
)
BAD = Case(name="helion_2351", params=("bad",), function=step, args=ARGS)
CURED = Case(name="helion_2351", params=("cured",), function=step_aliased, args=ARGS)
CASES = (BAD, CURED)
