"""Updates a search direction in place, without a second array."""

import jax
import jax.numpy as jnp
import triton

from kernels.add_scaled.triton import add_scaled_kernel
from kernels.triton_call import inplace_call

BLOCK = 64
"""Number of elements that one program holds."""


def add_scaled(
    residual: jax.Array, factor: jax.Array, direction: jax.Array, *, mode: str = "aliased"
) -> tuple[jax.Array, jax.Array]:
    """Returns the sum of the squares of the new direction, f32[], and the new direction, `residual + factor * direction`.

    residual, direction: f32[size]; factor: f32[]. The kernel gets the direction as two operands: it reads one and
    overwrites the other.
    """
    if residual.ndim != 1 or residual.shape != direction.shape:
        raise ValueError(f"Expected two arrays of one size but got {residual.shape=} and {direction.shape=}")
    blocks = triton.cdiv(residual.size, BLOCK)
    (squares,), updated = inplace_call(
        add_scaled_kernel,
        residual,
        factor,
        direction,
        direction,
        written=3,
        outputs=(jax.ShapeDtypeStruct((blocks,), jnp.float32),),
        grid=(blocks,),
        mode=mode,
        SIZE=residual.size,
        BLOCK=BLOCK,
    )
    return squares.sum(), updated
