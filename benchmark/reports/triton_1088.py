"""A kernel overwrites tensors that were never passed to it.

Structure: the last program of a grid stores a whole block, although the vector ends within it: no mask.

The right answer: 256 elements are stored into an output of 200, so 56 go into the bytes behind it, whoever they belong to.
The output itself is right. The store is the line. The cured twin masks load and store.
"""

import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE, BLOCK = 200, 128


@triton.jit
def scale_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < SIZE)
    tl.store(out_ptr + at, 3.0 * x)  # at: store_line


@triton.jit
def scale_masked_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < SIZE)
    tl.store(out_ptr + at, 3.0 * x, mask=at < SIZE)


def scale(kernel, x):
    grid = triton.cdiv(SIZE, BLOCK)
    return {"out": jax_triton.triton_call(x, kernel=kernel, out_shape=x, grid=grid, SIZE=SIZE, BLOCK=BLOCK)}  # at: call


def scale_all(x):
    return scale(scale_kernel, x)


def scale_masked(x):
    return scale(scale_masked_kernel, x)


ARGS = (Arg(shape=(SIZE,)),)
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/1088",
    year=2023,
    versions="triton 2.0",
    kind=Kind.OUT_OF_BOUNDS,
    reported="a kernel seems to overwrite tensors that it was not given",
    finds=Wrong(at=("store_line", "call"), outputs=("out",)),
)
BAD = Case(name="triton_1088", params=("bad",), function=scale_all, args=ARGS)
CURED = Case(name="triton_1088", params=("cured",), function=scale_masked, args=ARGS)
CASES = (BAD, CURED)
