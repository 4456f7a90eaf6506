"""Multiplies an array by a number in place."""

import jax
import jax.numpy as jnp
import triton

from kernels.modes import Mode
from kernels.scale.triton import scale_by_address_kernel, scale_kernel
from kernels.triton_call import inplace_call

BLOCK = 1024
"""Number of elements that one program holds."""


def scale(values: jax.Array, factor: jax.Array, *, mode: str = "aliased") -> jax.Array:
    """Returns `values * factor`, computed in f32 and rounded to the values' dtype: the array that has the new contents of
    `values` in this mode (see `kernels.modes.Mode`).

    values: bf16, f16 or f32[...]; factor: float[]. In the modes `hidden` and `barrier` the kernel has no outputs at all, and
    JAX drops such a call; `trivial` needs an output to add, so it raises ValueError.
    """
    mode = Mode(mode)
    if mode is Mode.TRIVIAL:
        raise ValueError("Expected a mode other than 'trivial': the kernel has no other output to add and subtract")
    if factor.shape:
        raise ValueError(f"Expected a factor of shape () but got {factor.shape=}")
    flat = values.reshape(-1)
    _, scaled = inplace_call(
        scale_kernel,
        flat,
        factor.astype(jnp.float32),
        written=0,
        outputs=(),
        grid=(triton.cdiv(flat.size, BLOCK),),
        mode=mode,
        SIZE=flat.size,
        BLOCK=BLOCK,
    )
    return scaled.reshape(values.shape)


def scale_by_address(values: jax.Array, factor: jax.Array, *, mode: str = "aliased") -> tuple[jax.Array, jax.Array]:
    """Returns `sum(values)`, f32[], and `values * factor`, f32[size]: the array that has the new contents of `values` in
    this mode (see `kernels.modes.Mode`).

    values: f32[size]; factor: f32[]. If the write is not declared, the kernel stores through a pointer that it makes
    from an integer: its IR does not show which operand it writes. For tests of ligerdiag.
    """
    if values.ndim != 1 or factor.shape:
        raise ValueError(f"Expected values (size,) and a factor () but got {values.shape=} and {factor.shape=}")
    blocks = triton.cdiv(values.size, BLOCK)
    (totals,), scaled = inplace_call(
        scale_by_address_kernel,
        values,
        factor,
        written=0,
        outputs=(jax.ShapeDtypeStruct((blocks,), jnp.float32),),
        grid=(blocks,),
        mode=mode,
        SIZE=values.size,
        BLOCK=BLOCK,
    )
    return totals.sum(), scaled
