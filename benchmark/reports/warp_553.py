"""A kernel adds to an output, and the initial value that the author gave this output does not arrive.

Structure: the sum is added by atomics to an output of the call, which has no alias to the array with the initial value.

The right answer: 10 + sum(x). The output is memory that nobody has set, and the kernel reads it in order to add:
`total` is undefined. With an alias the kernel adds to the initial value.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def sum_kernel(x_ptr, initial_ptr, total_ptr, SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * SIZE + tl.arange(0, SIZE))
    tl.atomic_add(total_ptr, tl.sum(x))


@triton.jit
def sum_in_place_kernel(x_ptr, total_ptr, spare_ptr, SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * SIZE + tl.arange(0, SIZE))
    tl.atomic_add(total_ptr, tl.sum(x))


def sum_unset(x):
    out = jax.ShapeDtypeStruct((), "float32")
    total = jax_triton.triton_call(  # at: call
        x, jnp.full((), 10.0), kernel=sum_kernel, out_shape=out, grid=4, SIZE=x.size // 4
    )
    return {"total": total}


def sum_set(x):
    (total,) = call_in_place(x, jnp.full((), 10.0), written=1, kernel=sum_in_place_kernel, grid=4, SIZE=x.size // 4)
    return {"total": total}


REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/553",
    year=2025,
    versions="warp 1.6",
    kind=Kind.UNWRITTEN_READ,
    reported="the initial value of an output to which a kernel adds is ignored",
    finds=Wrong(outputs=("total",), at=("call",)),
)
BAD = Case(name="warp_553", params=("bad",), function=sum_unset, args=(Arg(shape=(1024,)),))
CURED = Case(name="warp_553", params=("cured",), function=sum_set, args=(Arg(shape=(1024,)),))
CASES = (BAD, CURED)
