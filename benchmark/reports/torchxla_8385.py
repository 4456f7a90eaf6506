"""A Pallas kernel that increments a tensor in place is right, but the tensor is copied before each call.

Structure: a call whose output aliases its operand, which is an argument of the program. The program returns the new value,
and the argument is not donated.

The right answer: the declared alias asks for one buffer, but the caller keeps the argument, so XLA copies its 128 KiB first.
The call is the line. The cured twin donates the argument.
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def plus_one_kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...] + 1


def plus_one(x):
    block = pl.BlockSpec((1024,), lambda i: (i,))
    call = pl.pallas_call(
        plus_one_kernel,
        grid=(x.size // 1024,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        compiler_params=pallas_triton.CompilerParams(),
    )
    return {"x": call(x)}  # at: call_line


REPORT = Report(
    link="https://github.com/pytorch/xla/issues/8385",
    year=2024,
    versions="torch_xla 2.5, TPU",
    kind=Kind.SILENT_COPY,
    reported="a kernel in place on the key-value cache is slow, because its operand is copied",
    finds=Wrong(at=("call_line",)),
)
BAD = Case(name="torchxla_8385", params=("bad",), function=plus_one, args=(Arg(shape=(32768,), dtype="int32"),))
CURED = Case(
    name="torchxla_8385", params=("cured",), function=plus_one, args=(Arg(shape=(32768,), dtype="int32", donate=True),)
)
CASES = (BAD, CURED)
