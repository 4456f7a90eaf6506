"""A kernel adds to an output that the author has given a value; the value never reaches the kernel.

Structure: the kernel adds the elements of `a` to its output by an atomic operation. The output is a plain output of the call;
the array of tens that the author makes is not passed to it.

The right answer: the author means 10 plus the sum of `a`. The output's memory is never written before the kernel adds to it,
so `b` is arbitrary. The cured twin passes the tens in, and aliases them to the output.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE = 128


@triton.jit
def accumulate_kernel(a_ptr, b_ptr):
    tl.atomic_add(b_ptr, tl.load(a_ptr + tl.program_id(0)))


@triton.jit
def accumulate_into_kernel(a_ptr, b_ptr, spare_ptr):
    tl.atomic_add(b_ptr, tl.load(a_ptr + tl.program_id(0)))


def add_to_output(a):
    b = jax.ShapeDtypeStruct((1,), a.dtype)
    return {"b": jax_triton.triton_call(a, kernel=accumulate_kernel, out_shape=b, grid=SIZE)}


def add_to_tens(a):
    (b,) = call_in_place(a, jnp.full((1,), 10, a.dtype), written=1, kernel=accumulate_into_kernel, grid=SIZE)
    return {"b": b}


ARGS = (Arg(shape=(SIZE,), dtype="int32"),)
REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/553",
    year=2025,
    versions="warp 1.6",
    kind=Kind.UNWRITTEN_READ,
    reported="a kernel called from JAX ignores the value that its output was given before",
    finds=Wrong(outputs=("b",)),
)
BAD = Case(name="warp_553", params=("bad",), function=add_to_output, args=ARGS)
CURED = Case(name="warp_553", params=("cured",), function=add_to_tens, args=ARGS)
CASES = (BAD, CURED)
