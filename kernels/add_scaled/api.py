"""The update of a search direction that needs no second array."""

import jax
import jax.numpy as jnp
import triton

from kernels.add_scaled.triton import add_scaled_kernel
from kernels.triton_call import inplace_call

BLOCK = 64
"""Elements that one program holds."""


def add_scaled(
    residual: jax.Array, factor: jax.Array, direction: jax.Array, *, mode: str = "aliased"
) -> tuple[jax.Array, jax.Array]:
    """Returns `residual + factor * direction`, f32[size], as `mode` gets hold of it, after the sum of its squares, f32[].

    residual, direction: f32[size]; factor: f32[]. The direction is handed to the kernel twice, to read and to overwrite.
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
