"""GeGLU in plain jnp, computed in f32: the reference for the kernel."""

import math

import jax
import jax.numpy as jnp


def geglu(gate: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the gated value, in the shape and dtype of both arrays, float[...].

        output = gate / 2 * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3))) * value

    (Shazeer, arXiv 2002.05202, equation 6, behind the two products; the tanh form of gelu is Hendrycks and Gimpel's, arXiv
    1606.08415, section 2). Everything is computed in f32 and rounded once.
    """
    g = gate.astype(jnp.float32)
    t = jnp.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g * g * g))
    return (0.5 * g * (1 + t) * value.astype(jnp.float32)).astype(gate.dtype)
