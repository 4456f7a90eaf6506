"""A matrix product that splits its inner dimension adds the parts to a result that was never cleared.

Structure: the second axis of the grid splits the inner dimension; with more than one part each program adds its product by
atomic operations. The output is allocated without a value.

The right answer: `a @ b`. Every element starts from arbitrary bytes, so `c` is the product plus those. The cured twin has
the launcher clear the output.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

M, N, K, SPLIT = 32, 32, 64, 2


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr
):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    columns = tl.arange(0, N)
    inner = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
    at = c_ptr + rows[:, None] * N + columns[None, :]
    if SPLIT == 1:
        tl.store(at, tl.dot(a, b))
    else:
        tl.atomic_add(at, tl.dot(a, b))


def multiply(a, b, **keywords):
    c = jax.ShapeDtypeStruct((M, N), "float32")
    sizes = {"M": M, "N": N, "K": K, "BLOCK": K // SPLIT, "SPLIT": SPLIT}
    return {
        "c": jax_triton.triton_call(a, b, kernel=matmul_kernel, out_shape=c, grid=(M // 16, SPLIT), **sizes, **keywords)
    }


def multiply_cleared(a, b):
    return multiply(a, b, zeroed_outputs=(0,))


ARGS = (Arg(shape=(M, K)), Arg(shape=(K, N)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/2183",
    year=2023,
    versions="triton 2.1",
    kind=Kind.UNWRITTEN_READ,
    reported="a split product adds to a result that is allocated without zeros",
    finds=Wrong(outputs=("c",)),
)
BAD = Case(name="triton_2183", params=("bad",), function=multiply, args=ARGS)
CURED = Case(name="triton_2183", params=("cured",), function=multiply_cleared, args=ARGS)
CASES = (BAD, CURED)
