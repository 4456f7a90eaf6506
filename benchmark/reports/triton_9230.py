"""Autotuned configurations write different parts of the output, and the result is a mixture of several trials.

Structure: a sum of two vectors whose configuration says which half is written; each alone leaves the other half
unwritten.

The right answer: x + y everywhere. The launch that counts writes 512 of 1024 elements; the others have the bytes of a
trial in the first execution, and nobody's later on: `sum` is undefined in one half, under either configuration.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


@triton.jit
def add_kernel(x_ptr, y_ptr, sum_ptr, START: tl.constexpr):
    at = START + tl.arange(0, 512)
    tl.store(sum_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


@triton.jit
def add_all_kernel(x_ptr, y_ptr, sum_ptr):
    at = tl.arange(0, 1024)
    tl.store(sum_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


CONFIGS = [triton.Config({"START": 0}, num_warps=2), triton.Config({"START": 512}, num_warps=2)]
tuned_kernel = triton.autotune(CONFIGS, key=[])(add_kernel)


def add_half(x, y):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    added = jax_triton.triton_call(x, y, kernel=tuned_kernel, out_shape=out, grid=1)  # at: call
    return {"sum": added}


def add_all(x, y):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return {"sum": jax_triton.triton_call(x, y, kernel=add_all_kernel, out_shape=out, grid=1)}


REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/9230",
    year=2026,
    versions="triton 3.6",
    kind=Kind.UNWRITTEN_READ,
    reported="configurations that write disjoint parts pass a test together, and each alone fails it",
    finds=Wrong(outputs=("sum",), at=("call",), kinds=(Kind.UNWRITTEN_READ, Kind.REPEATED_UPDATE)),
)
ARGS = (Arg(shape=(1024,)), Arg(shape=(1024,)))
BAD = Case(name="triton_9230", params=("bad",), function=add_half, args=ARGS)
CURED = Case(name="triton_9230", params=("cured",), function=add_all, args=ARGS)
CASES = (BAD, CURED)
