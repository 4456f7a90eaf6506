"""A gated linear unit, activation(gate) * value, whose backward pass leaves both gradients where its inputs were.

An element of the result needs one element of either input, so one block of elements is one program, whatever the shape.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import triton

from kernels.modes import Mode
from kernels.triton_call import overwriting_call

BLOCK = 2048
"""Elements that one program holds."""
WARPS = 4

type GatedUnit = Callable[[jax.Array, jax.Array, Mode], jax.Array]


def make_gated_unit(forward_kernel: Any, backward_kernel: Any) -> GatedUnit:
    """Returns the differentiable function of gate, value and mode that two kernels compute.

    forward_kernel(gate, value, output); backward_kernel(gate, value, cotangent, token, destinations of gate and value). The
    token is a zero that each program stores: `trivial` needs an output to add.
    """

    @partial(jax.custom_vjp, nondiff_argnums=(2,))
    def gated_unit(gate: jax.Array, value: jax.Array, mode: Mode) -> jax.Array:
        (output,), _ = overwriting_call(
            forward_kernel,
            gate,
            value,
            written=(),
            outputs=(jax.ShapeDtypeStruct(gate.shape, gate.dtype),),
            mode=Mode.OUT_OF_PLACE,
            **_describe_launch(gate.size),
        )
        return output

    def forward(gate: jax.Array, value: jax.Array, mode: Mode) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        return gated_unit(gate, value, mode), (gate, value)

    def backward(
        mode: Mode, residuals: tuple[jax.Array, jax.Array], cotangent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        launch = _describe_launch(cotangent.size)
        _, gradients = overwriting_call(
            backward_kernel,
            *residuals,
            cotangent,
            written=(0, 1),
            outputs=(jax.ShapeDtypeStruct(launch["grid"], jnp.float32),),  # zeros: what `trivial` adds
            mode=mode,
            **launch,
        )
        return gradients[0], gradients[1]

    gated_unit.defvjp(forward, backward)
    return gated_unit


def apply_gated_unit(gated_unit: GatedUnit, gate: jax.Array, value: jax.Array, mode: str) -> jax.Array:
    """Returns the unit of float arrays of one shape and dtype, in that; ValueError where they differ."""
    if gate.shape != value.shape or gate.dtype != value.dtype:
        raise ValueError(
            f"Expected gate and value of one shape and dtype but got {gate.shape=} {gate.dtype=} "
            f"{value.shape=} {value.dtype=}"
        )
    mode = Mode(mode)
    return gated_unit(gate, value, mode) if gate.size else gate


def _describe_launch(size: int) -> dict[str, Any]:
    return {"grid": (triton.cdiv(size, BLOCK),), "num_warps": WARPS, "SIZE": size, "BLOCK": BLOCK}
