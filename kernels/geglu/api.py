"""GeGLU whose backward pass overwrites both inputs with their gradients."""

import jax

from kernels.gated_unit import apply_gated_unit, make_gated_unit

_geglu = make_gated_unit(gelu=True)


def geglu(gate: jax.Array, value: jax.Array, *, mode: str = "aliased") -> jax.Array:
    """Returns `gelu(gate) * value`, gelu in its tanh form, in the shape and dtype of both; differentiable in both.

    gate, value: bf16, f16 or f32[...]. See `reference.geglu` for the formula and `kernels.modes.Mode` for how the backward
    kernel overwrites them. Raises ValueError for arrays that differ in shape or dtype and for an unknown mode.
    """
    return apply_gated_unit(_geglu, gate, value, mode)
