"""A kernel whose mask is a number, for arrays of another size: `ligerdiag check docs/reports/jax_triton_add_example.py`."""

from typing import Any

import jax
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, LENGTH: tl.constexpr, SIZE: tl.constexpr):
    """x + y, for the first LENGTH elements."""
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = place < LENGTH
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=mask) + tl.load(y_ptr + place, mask=mask), mask=mask)


def add(length: int | None, x: Any, y: Any) -> Any:
    """x + y by programs of eight elements each."""
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    words = {"LENGTH": length or x.size, "SIZE": 8}
    return jax_triton.triton_call(x, y, kernel=add_kernel, out_shape=out, grid=triton.cdiv(x.size, 8), **words)


def add_eight(x: Any, y: Any) -> Any:
    """As the example does."""
    return add(8, x, y)


def add_all(x: Any, y: Any) -> Any:
    """With the size of the array in the mask."""
    return add(None, x, y)


ARGS = (Arg(shape=(64,)),) * 2
CASES = (
    Case(name="add_eight", function=add_eight, args=ARGS),
    Case(name="add_all", function=add_all, args=ARGS),
)
