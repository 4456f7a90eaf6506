"""All programs of a grid add their partial sums to one row by loading, adding and storing.

Structure: each program sums a block of rows and adds the result to the output, which aliases zeros.

The right answer: the sum of all rows. Programs run at once, in any order: two that load the same contents lose one of the
two sums, so `sums` is wrong unless the programs happen to run one after the other. The cured twin adds atomically.
"""

import jax.numpy as jnp
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

ROWS, COLUMNS, BLOCK = 32, 64, 8


@triton.jit
def sum_kernel(x_ptr, sums_ptr, spare_ptr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, COLUMNS)
    part = tl.sum(tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :]), axis=0)
    if ATOMIC:
        tl.atomic_add(sums_ptr + columns, part)
    else:
        tl.store(sums_ptr + columns, tl.load(sums_ptr + columns) + part)


def add(x, atomic):
    keywords = {"grid": ROWS // BLOCK, "COLUMNS": COLUMNS, "BLOCK": BLOCK, "ATOMIC": atomic}
    (sums,) = call_in_place(x, jnp.zeros(COLUMNS), written=1, kernel=sum_kernel, **keywords)  # at: call
    return {"sums": sums}


def add_by_store(x):
    return add(x, False)


def add_by_atomics(x):
    return add(x, True)


REPORT = Report(
    link="https://github.com/pytorch/helion/pull/2615",
    year=2026,
    versions="helion of June 2026",
    kind=Kind.LOST_UPDATE,
    reported="programs that add to one place by load and store lose updates",
    finds=Wrong(outputs=("sums",), at=("call",)),
    revised="the call was added as a place",
)
BAD = Case(name="helion_2615", params=("bad",), function=add_by_store, args=(Arg(shape=(ROWS, COLUMNS)),))
CURED = Case(name="helion_2615", params=("cured",), function=add_by_atomics, args=(Arg(shape=(ROWS, COLUMNS)),))
CASES = (BAD, CURED)
