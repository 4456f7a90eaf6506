"""The kernels for Pallas on Triton, which supports only arrays whose sizes are powers of two."""

from functools import partial
from typing import Any

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton


def multiply_range_pallas(x: jax.Array, y: jax.Array, *, start: int, end: int, aliased: bool) -> jax.Array:
    """Returns an array whose elements from `start` to `end` (exclusive) are `x * y`. The kernel stores no other element.

    aliased: whether the result shares its bytes with `x`, so that the other elements are those of `x`.
    """
    return pl.pallas_call(
        partial(_multiply_range, start=start, end=end),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0} if aliased else {},
        compiler_params=pallas_triton.CompilerParams(),
    )(x, y)


def leave_pallas(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Passes both arrays through a kernel that stores nothing, and returns them."""
    return pl.pallas_call(
        _leave,
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(y.shape, y.dtype)),
        input_output_aliases={0: 0, 1: 1},
        compiler_params=pallas_triton.CompilerParams(),
    )(x, y)


def _multiply_range(x_ref: Any, y_ref: Any, out_ref: Any, *, start: int, end: int) -> None:
    out_ref[start:end] = x_ref[start:end] * y_ref[start:end]


def _leave(*refs: Any) -> None:
    del refs
