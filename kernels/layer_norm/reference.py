"""Layer normalization in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp


def layer_norm(input: jax.Array, weight: jax.Array, bias: jax.Array, *, epsilon: float = 1e-6) -> jax.Array:
    """Returns the normalized input, in its shape and dtype.

    input: float[..., hidden]; weight, bias: float[hidden].

        output = (input - mean(input)) / sqrt(var(input) + epsilon) * weight + bias

    with the variance of the whole row, not of a sample of it (Ba, Kiros and Hinton, arXiv 1607.06450, equations 3 and 4).
    Everything is computed in f32 and rounded once.
    """
    x = input.astype(jnp.float32)
    centered = x - jnp.mean(x, axis=-1, keepdims=True)
    normalized = centered * jax.lax.rsqrt(jnp.mean(centered * centered, axis=-1, keepdims=True) + epsilon)
    return (normalized * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(input.dtype)
