"""RMS normalization in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp

from kernels.rms_norm.options import Casting


def rms_norm(
    input: jax.Array, weight: jax.Array, *, epsilon: float = 1e-6, offset: float = 0.0, casting: str = "llama"
) -> jax.Array:
    """Returns the normalized input, in its shape and dtype.

    input: float[..., hidden]; weight: float[hidden].

        output = input / sqrt(mean(input^2) + epsilon) * (offset + weight)

    (Zhang and Sennrich, arXiv 1910.07467, equation 4, with the epsilon under the root). Everything is computed in f32;
    `Casting` says where it is rounded. Offset and castings are those of the public implementations of Llama and Gemma.
    """
    x = input.astype(jnp.float32)
    normalized = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon)
    if Casting(casting) is Casting.LLAMA:
        normalized = normalized.astype(input.dtype).astype(jnp.float32)
    return (normalized * (offset + weight.astype(jnp.float32))).astype(input.dtype)
