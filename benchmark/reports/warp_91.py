"""A kernel that changes an array of a jitted function is launched for its effect alone.

Structure: `y = x + 1`, a launch that doubles `y` and has no output, `return y`.

The right answer: the author means `2 * (x + 1)`. A call without outputs that nobody uses is dropped, or, if it stays, XLA
does not know that `y` changes: the returned `y` is stale. The cured twin returns the value that the call gives back.
"""

import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE = 512


@triton.jit
def double_kernel(y_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, 2.0 * tl.load(y_ptr + at))


def launch(x):
    y = x + 1.0
    jax_triton.triton_call(y, kernel=double_kernel, out_shape=(), grid=1, SIZE=SIZE, spare_ptr=None)
    return {"y": y}


def launch_declared(x):
    (y,) = call_in_place(x + 1.0, written=0, kernel=double_kernel, grid=1, SIZE=SIZE)
    return {"y": y}


REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/91",
    year=2023,
    versions="warp 0.8",
    kind=Kind.STALE,
    reported="how a kernel can be launched inside of a jitted function to change an array in place",
    finds=Wrong(outputs=("y",), kinds=(Kind.STALE, Kind.MOVED_BY_JAX)),
)
BAD = Case(name="warp_91", params=("bad",), function=launch, args=(Arg(shape=(SIZE,)),))
CURED = Case(name="warp_91", params=("cured",), function=launch_declared, args=(Arg(shape=(SIZE,)),))
CASES = (BAD, CURED)
