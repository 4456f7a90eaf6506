"""Rotary position embedding in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp


def rope(queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the rotated queries and keys, each in its shape and dtype.

    queries: float[..., tokens, heads, size]; keys: float[..., tokens, key_heads, size]; cosines, sines:
    float[..., tokens, size / 2] of the angles.

        output[i]            = x[i] cos[i] - x[i + size / 2] sin[i]
        output[i + size / 2] = x[i + size / 2] cos[i] + x[i] sin[i]

    (Su et al., arXiv 2104.09864, equation 34, with the pairs (i, i + size / 2) of the public implementations of Llama, not
    (2 i, 2 i + 1)). Everything is computed in f32 and rounded once. A rotation is orthogonal, so its gradient
    is the cotangent, rotated by the negative angle.
    """
    return _turn(queries, cosines, sines), _turn(keys, cosines, sines)


def compute_angles(tokens: int, size: int, *, base: float = 10000.0) -> tuple[jax.Array, jax.Array]:
    """Returns cosines and sines, f32[tokens, size / 2], of the angles `token * base ** (-2 i / size)`."""
    frequencies = base ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    angles = jnp.arange(tokens, dtype=jnp.float32)[:, None] * frequencies
    return jnp.cos(angles), jnp.sin(angles)


def _turn(x: jax.Array, cosines: jax.Array, sines: jax.Array) -> jax.Array:
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cosines, sines = (array.astype(jnp.float32)[..., None, :] for array in (cosines, sines))
    return jnp.concatenate([first * cosines - second * sines, second * cosines + first * sines], -1).astype(x.dtype)
