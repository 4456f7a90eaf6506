"""SwiGLU in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp


def swiglu(gate: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the gated value, in the shape and dtype of both arrays, float[...].

        output = gate * sigmoid(gate) * value

    (Shazeer, arXiv 2002.05202, equation 6, behind the two products). Everything is computed in f32 and rounded once.
    """
    g = gate.astype(jnp.float32)
    return (g * jax.nn.sigmoid(g) * value.astype(jnp.float32)).astype(gate.dtype)
