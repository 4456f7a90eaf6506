"""Rotary position embedding that rotates queries and keys in place, and their gradients in the backward pass."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.modes import Mode
from kernels.rope.triton import launch

type Pair = tuple[jax.Array, jax.Array]


def rope(
    queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array, *, mode: str = "aliased"
) -> tuple[jax.Array, jax.Array]:
    """Returns the rotated queries and keys, each in its shape and dtype; differentiable in both, not in the angles.

    queries: bf16, f16 or f32[..., tokens, heads, size]; keys: the same, with another number of heads; cosines, sines:
    float[..., tokens, size / 2], whose leading axes broadcast. See `reference.rope` for the formula and
    `kernels.modes.Mode` for how the kernel overwrites queries and keys in the forward pass, and their cotangents in the
    backward pass. Raises ValueError for shapes that do not fit and for an unknown mode.
    """
    mode = Mode(mode)
    *batch, heads, size = queries.shape if queries.ndim > 2 else (0, 0, 0)
    if not batch or size % 2 or keys.ndim != queries.ndim or (*keys.shape[:-2], keys.shape[-1]) != (*batch, size):
        raise ValueError(
            "Expected queries (..., tokens, heads, size), keys (..., tokens, key_heads, size) and an even size "
            f"but got {queries.shape=} {keys.shape=}"
        )
    angles = (*batch, size // 2)
    for name, array in (("cosines", cosines), ("sines", sines)):
        fits = all(one in (1, wanted) for one, wanted in zip(array.shape[::-1], angles[::-1], strict=False))
        if array.ndim > len(angles) or not fits:
            raise ValueError(f"Expected {name} (..., tokens, size / 2) but got {array.shape} for {queries.shape=}")
    if not queries.size and not keys.size:
        return queries, keys
    if not queries.size or not keys.size:
        raise ValueError(f"Expected queries and keys, or neither, but got {queries.shape=} {keys.shape=}")
    cosines, sines = (jnp.broadcast_to(array, angles).reshape(-1, size // 2) for array in (cosines, sines))
    turned = _rope(queries.reshape(-1, heads, size), keys.reshape(-1, keys.shape[-2], size), cosines, sines, mode)
    return turned[0].reshape(queries.shape), turned[1].reshape(keys.shape)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _rope(queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array, mode: Mode) -> Pair:
    return launch(queries, keys, cosines, sines, backwards=False, mode=mode)


def _forward(
    queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array, mode: Mode
) -> tuple[Pair, Pair]:
    return _rope(queries, keys, cosines, sines, mode), (cosines, sines)


def _backward(mode: Mode, angles: Pair, cotangents: Pair) -> tuple[jax.Array, jax.Array, None, None]:
    return *launch(*cotangents, *angles, backwards=True, mode=mode), None, None


_rope.defvjp(_forward, _backward)
