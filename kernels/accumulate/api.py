"""Adds the sum of an array to a number in place."""

import jax
import jax.numpy as jnp
import triton

from kernels.accumulate.triton import add_sum_kernel
from kernels.modes import Mode
from kernels.triton_call import inplace_call

BLOCK = 64
"""Number of elements that one program adds up."""


def add_sum(values: jax.Array, total: jax.Array, *, mode: str = "aliased") -> tuple[jax.Array, jax.Array]:
    """Returns a copy of the values, and `total + sum(values)` as the new contents of `total`.

    values: f32[size]; total: f32[1]. Raises ValueError for `out_of_place`, since the programs add to the old contents.
    """
    mode = Mode(mode)
    if mode is Mode.OUT_OF_PLACE:
        raise ValueError("Expected a mode other than 'out_of_place': the kernel adds to its destination's contents")
    if values.ndim != 1 or total.shape != (1,):
        raise ValueError(f"Expected values (size,) and total (1,) but got {values.shape=} and {total.shape=}")
    (copy,), total = inplace_call(
        add_sum_kernel,
        values,
        total,
        written=1,
        outputs=(jax.ShapeDtypeStruct(values.shape, jnp.float32),),
        grid=(triton.cdiv(values.size, BLOCK),),
        mode=mode,
        SIZE=values.size,
        BLOCK=BLOCK,
    )
    return copy, total
