"""A persistent reduction adds the sums of its tiles to a cell that was allocated without being cleared.

Structure: a few programs stride over the tiles of a vector; each tile's sum is added to one cell by an atomic operation. The
last tile is masked.

The right answer: the sum of the vector. The cell starts from arbitrary bytes, so `total` is that sum plus whatever was
there. The cured twin has the launcher clear the cell.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

SIZE, BLOCK, PROGRAMS = 1000, 128, 3


@triton.jit
def reduce_kernel(source_ptr, total_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(SIZE, BLOCK), PROGRAMS):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(total_ptr, tl.sum(tl.load(source_ptr + at, mask=at < SIZE, other=0.0)))


def reduce(x, **keywords):
    cell = jax.ShapeDtypeStruct((1,), x.dtype)
    total = jax_triton.triton_call(
        x, kernel=reduce_kernel, out_shape=cell, grid=PROGRAMS, SIZE=SIZE, BLOCK=BLOCK, PROGRAMS=PROGRAMS, **keywords
    )
    return {"total": total[0]}


def reduce_cleared(x):
    return reduce(x, zeroed_outputs=(0,))


REPORT = Report(
    link="https://github.com/ByteDance-Seed/Triton-distributed/issues/182",
    year=2026,
    versions="Triton-distributed of July 2026",
    kind=Kind.UNWRITTEN_READ,
    reported="a reduction adds by atomic operations to a cell that nobody has set to zero",
    finds=Wrong(outputs=("total",)),
)
BAD = Case(name="tritondist_182", params=("bad",), function=reduce, args=(Arg(shape=(SIZE,)),))
CURED = Case(name="tritondist_182", params=("cured",), function=reduce_cleared, args=(Arg(shape=(SIZE,)),))
CASES = (BAD, CURED)
