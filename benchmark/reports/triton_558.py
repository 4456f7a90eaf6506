"""Scattered additions by load and store lose all but one of the values that meet in one place.

Structure: each program adds a block of values to the places that an index array names, in place. The indices repeat, within
a block and between blocks; the comment in the report says that this form works for permutations only.

The right answer: `out.at[index].add(values)`. Two values for one place are both added to the old contents, and one of the
sums overwrites the other: `out` lacks updates. The cured twin adds by atomic operations.
"""

import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place

SIZE, PLACES, BLOCK = 128, 16, 32


@triton.jit
def scatter_kernel(index_ptr, values_ptr, out_ptr, spare_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = out_ptr + tl.load(index_ptr + at)
    tl.store(place, tl.load(place) + tl.load(values_ptr + at))


@triton.jit
def scatter_atomic_kernel(index_ptr, values_ptr, out_ptr, spare_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + tl.load(index_ptr + at), tl.load(values_ptr + at))


def scatter(kernel, out, index, values):
    (out,) = call_in_place(
        index, values, 2.0 * out, written=2, kernel=kernel, grid=SIZE // BLOCK, BLOCK=BLOCK
    )  # at: call
    return {"out": out}


def add_by_store(out, index, values):
    return scatter(scatter_kernel, out, index, values)


def add_by_atomics(out, index, values):
    return scatter(scatter_atomic_kernel, out, index, values)


def reference(out, index, values):
    return {"out": (2.0 * out).at[index].add(values)}


INDEX = Arg(shape=(SIZE,), dtype="int32", draw=Draw(kind="randint", low=0, high=PLACES))
ARGS = (Arg(shape=(PLACES,)), INDEX, Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/558",
    year=2022,
    versions="triton 2.0",
    kind=Kind.LOST_UPDATE,
    reported="scattered additions with repeated indices are wrong",
    finds=Wrong(outputs=("out",), at=("call",)),
    revised="the call was added as a place",
)
BAD = Case(name="triton_558", params=("bad",), function=add_by_store, args=ARGS)
CURED = Case(name="triton_558", params=("cured",), function=add_by_atomics, args=ARGS, reference=reference)
CASES = (BAD, CURED)
