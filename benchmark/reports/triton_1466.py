"""What does a kernel compute whose output pointer is its input pointer plus a small offset?

Structure: each program of a vector addition loads a block of `x`, adds `y`, and stores the sum 64 elements further
on, into the same buffer.

The right answer: as a function of whole vectors, element i + 64 of the result is x[i] + y[i]. A program stores into
the block that the next program loads, so the result depends on which of them comes first: `x` is not defined by the
program. The cured twin stores into an output of its own.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE, BLOCK, OFFSET = 512, 128, 64


@triton.jit
def add_kernel(x_ptr, y_ptr, spare_ptr, BLOCK: tl.constexpr, OFFSET: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + OFFSET + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


@triton.jit
def add_apart_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


def add_shifted(x, y):
    x = jnp.sin(x)
    keywords = {"kernel": add_kernel, "grid": SIZE // BLOCK, "BLOCK": BLOCK, "OFFSET": OFFSET}
    (x,) = call_in_place(x, y, written=0, **keywords)  # at: call
    return {"x": x}


def add_apart(x, y):
    x = jnp.sin(x)
    out = jax.ShapeDtypeStruct((SIZE,), x.dtype)
    total = jax_triton.triton_call(x[:SIZE], y, kernel=add_apart_kernel, out_shape=out, grid=SIZE // BLOCK, BLOCK=BLOCK)
    return {"x": jnp.concatenate([x[:OFFSET], total])}


def reference(x, y):
    x = jnp.sin(x)
    return {"x": jnp.concatenate([x[:OFFSET], x[:SIZE] + y])}


ARGS = (Arg(shape=(SIZE + OFFSET,)), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/1466",
    year=2023,
    versions="triton 2.0",
    kind=Kind.LOST_UPDATE,
    reported="whether a kernel may store through a pointer that is its input's plus a small offset",
    finds=Wrong(outputs=("x",), at=("call",), kinds=(Kind.LOST_UPDATE, Kind.SHARED_BYTES)),
)
BAD = Case(name="triton_1466", params=("bad",), function=add_shifted, args=ARGS, reference=reference)
CURED = Case(name="triton_1466", params=("cured",), function=add_apart, args=ARGS, reference=reference)
CASES = (BAD, CURED)
