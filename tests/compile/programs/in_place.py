"""A kernel that is called in place, behind a scalar and beside another array."""

import jax
import triton
import triton.language as tl

from ligerdiag.in_place import call_in_place
from ligerdiag.model.case import Arg, Case


@triton.jit
def add_kernel(by_ptr, factor, x_ptr, sum_ptr, declared_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at) + factor * tl.load(by_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, x)


def program(x, by):
    h = x * 2
    sums, added = call_in_place(
        by, 3, h, written=2, kernel=add_kernel, outputs=[jax.ShapeDtypeStruct((8,), x.dtype)], grid=(8,), COLUMNS=16
    )
    return {"sums": sums, "added": added * 5}


def reference(x, by):
    added = x * 2 + 3 * by
    return {"sums": added.sum(axis=1), "added": added * 5}


CASE = Case(name="in_place", function=program, args=(Arg(shape=(8, 16)), Arg(shape=(8, 16))), reference=reference)
