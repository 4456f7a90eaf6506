"""The first product of an autotuned kernel is unpredictable, the second one right: it adds to what its own trials left.

Structure: two equal configurations, and a kernel that adds its part of the product to the output by atomic
operations. The launcher tries both configurations on the same buffers before the launch that counts.

The right answer: `x @ w`. The output is not cleared, and if it were, the trials of the first call would add to it,
too: `out` is arbitrary. The cured twin has one configuration, and the launcher clears the output.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

ROWS, INNER, COLUMNS = 16, 64, 16


@triton.jit
def product_kernel(x_ptr, w_ptr, out_ptr, INNER: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, 16), tl.arange(0, COLUMNS)
    inner = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * INNER + inner[None, :])
    w = tl.load(w_ptr + inner[:, None] * COLUMNS + columns[None, :])
    tl.atomic_add(out_ptr + rows[:, None] * COLUMNS + columns[None, :], tl.dot(x, w))


TWICE = [triton.Config({"BLOCK": 32}, num_warps=2), triton.Config({"BLOCK": 32}, num_warps=4)]
tuned_kernel = triton.autotune(configs=TWICE, key=[])(product_kernel)
OUT = jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32")
SIZES = {"INNER": INNER, "COLUMNS": COLUMNS, "grid": (INNER // 32,), "out_shape": OUT}


def multiply_tuned(x, w):
    return {"out": jax_triton.triton_call(x, w, kernel=tuned_kernel, **SIZES)}


def multiply(x, w):
    return {"out": jax_triton.triton_call(x, w, kernel=product_kernel, BLOCK=32, zeroed_outputs=(0,), **SIZES)}


ARGS = (Arg(shape=(ROWS, INNER)), Arg(shape=(INNER, COLUMNS)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/3755",
    year=2024,
    versions="triton 2.1, AMD",
    kind=Kind.UNWRITTEN_READ,
    reported="with two configurations the first result of a split product is unpredictable, later ones are right",
    finds=Wrong(outputs=("out",), kinds=(Kind.UNWRITTEN_READ, Kind.REPEATED_UPDATE)),
)
BAD = Case(name="triton_3755", params=("bad",), function=multiply_tuned, args=ARGS)
CURED = Case(name="triton_3755", params=("cured",), function=multiply, args=ARGS)
CASES = (BAD, CURED)
