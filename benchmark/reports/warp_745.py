"""A kernel adds to an input by atomics, and only another output is declared; the caller reads the input afterwards.

Structure: a total of zeros is an input of the kernel, which adds the sum of `x` to it; the call's declared output is a
copy of `x` that nobody needs. The total is returned after the call.

The right answer: the program means the total after the call, 0 + sum(x). XLA knows of no write to the total, so it may
return zeros of another place, and `total` is stale; or it hands the kernel a constant, and then the next execution
starts from the sum of the one before. Either way the fault is the call, whose write is not declared. The copy of `x` is
right.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE = 256


@triton.jit
def sum_kernel(x_ptr, total_ptr, copy_ptr, spare_ptr, SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, SIZE))
    tl.atomic_add(total_ptr, tl.sum(x))
    tl.store(copy_ptr + tl.arange(0, SIZE), x)


def add_hidden(x):
    total = jnp.zeros(())
    copy = jax_triton.triton_call(  # at: call
        x, total, kernel=sum_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=1, SIZE=SIZE, spare_ptr=None
    )
    return {"copy": copy, "total": total}


def add_declared(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    copy, total = call_in_place(x, jnp.zeros(()), written=1, kernel=sum_kernel, outputs=(out,), grid=1, SIZE=SIZE)
    return {"copy": copy, "total": total}


REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/745",
    year=2025,
    versions="warp 1.7",
    kind=Kind.STALE,
    reported="under jit, the sum that a kernel adds to its input by atomics is missing",
    finds=Wrong(outputs=("total",), at=("call",)),
    revised="the call was added as a place: the output is right with constant zeros, and the second execution is the fault",
)
BAD = Case(name="warp_745", params=("bad",), function=add_hidden, args=(Arg(shape=(SIZE,)),))
CURED = Case(name="warp_745", params=("cured",), function=add_declared, args=(Arg(shape=(SIZE,)),))
CASES = (BAD, CURED)
