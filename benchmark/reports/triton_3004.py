"""A kernel that accumulates gives other numbers with two configurations, although each one alone is right.

Structure: the kernel adds sums and counts of its rows to two tables, which the caller has cleared, by atomic operations. It
has two configurations that differ in the block's size, and the launcher tries both on the caller's tables.

The right answer: per table row, the sum and the number of the inputs that belong to it. Each trial adds all of them once
more, so after the first call both tables are too large by a number of trials: `sums` and `counts` are wrong on a GPU. XLA's
schedule is right, and so is a run without trials. The cured twin has one configuration, and declares both writes.
"""

import jax.numpy as jnp
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place

ROWS, EXPERTS, BLOCK = 128, 8, 32


@triton.jit
def count_kernel(x_ptr, expert_ptr, sums_ptr, counts_ptr, spare_ptr, other_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(expert_ptr + at)
    tl.atomic_add(sums_ptr + expert, tl.load(x_ptr + at))
    tl.atomic_add(counts_ptr + expert, tl.full((BLOCK,), 1.0, tl.float32))


TWO = [triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)]
tuned_kernel = triton.autotune(configs=TWO, key=[])(count_kernel)


def count(kernel, x, experts):
    zeros = jnp.zeros(EXPERTS)
    tables = call_in_place(  # at: call
        x, experts, zeros, 0 * zeros, written=(2, 3), kernel=kernel, grid=ROWS // BLOCK, BLOCK=BLOCK
    )
    return {"sums": tables[0], "counts": tables[1]}


def count_tuned(x, experts):
    return count(tuned_kernel, x, experts)


def count_once(x, experts):
    return count(count_kernel, x, experts)


ARGS = (Arg(shape=(ROWS,)), Arg(shape=(ROWS,), dtype="int32", draw=Draw(kind="randint", low=0, high=EXPERTS)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/3004",
    year=2024,
    versions="triton 2.2",
    kind=Kind.REPEATED_UPDATE,
    reported="a kernel that accumulates is right with either of two configurations and wrong with both",
    finds=Wrong(outputs=("sums", "counts"), at=("call",)),
)
BAD = Case(name="triton_3004", params=("bad",), function=count_tuned, args=ARGS)
CURED = Case(name="triton_3004", params=("cured",), function=count_once, args=ARGS)
CASES = (BAD, CURED)
