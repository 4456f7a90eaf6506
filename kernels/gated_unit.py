"""A gated linear unit, activation(gate) * value, whose backward pass overwrites both inputs with their gradients.

An element of the result needs one element of either input, so one block of elements is one program, whatever the shape.

Both activations are g sigmoid(h(g)): silu with h(g) = g; the tanh form of gelu, as (1 + tanh(u)) / 2 = sigmoid(2 u), with

    h(g) = c (g + 0.044715 g^3),   h'(g) = c (1 + 0.134145 g^2),   c = 2 sqrt(2 / pi)
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.triton_call import overwriting_call

BLOCK = 2048
"""Number of elements that one program holds."""
WARPS = 16
"""Warps of a program: four elements for each thread, as in XLA; 8 or 16 keep fewer loads in flight, 1 % slower
on an H100.
"""
_TWICE_ROOT = tl.constexpr(2 * math.sqrt(2 / math.pi))
_CUBIC = tl.constexpr(0.044715)

type GatedUnit = Callable[[jax.Array, jax.Array, Mode], jax.Array]


@triton.jit
def _activate(gate, GELU: tl.constexpr):
    """Returns the activation of f32 numbers and its derivative."""
    inner = gate
    slope = 1.0
    if GELU:
        square = gate * gate
        inner = _TWICE_ROOT * (gate + _CUBIC * gate * square)
        slope = _TWICE_ROOT * (1.0 + 3.0 * _CUBIC * square)
    sigmoid = tl.sigmoid(inner)
    activated = gate * sigmoid
    return activated, sigmoid + activated * (1.0 - sigmoid) * slope


@triton.jit
def gated_unit_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    gate_ptr, value_ptr, output_ptr, GELU: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < SIZE).to(tl.float32)
    value = tl.load(value_ptr + at, mask=at < SIZE).to(tl.float32)
    activated, _ = _activate(gate, GELU)
    tl.store(output_ptr + at, activated * value, mask=at < SIZE)


@triton.jit
def gated_unit_backward_kernel(  # noqa: PLR0917
    gate_ptr,
    value_ptr,
    cotangent_ptr,
    token_ptr,
    destination_0_ptr,
    destination_1_ptr,
    GELU: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_0_ptr is None:
        destination_0_ptr = gate_ptr
    if destination_1_ptr is None:
        destination_1_ptr = value_ptr
    tl.store(token_ptr + tl.program_id(0), 0.0)  # an output for `trivial` to add
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < SIZE).to(tl.float32)
    value = tl.load(value_ptr + at, mask=at < SIZE).to(tl.float32)
    cotangent = tl.load(cotangent_ptr + at, mask=at < SIZE).to(tl.float32)
    activated, slope = _activate(gate, GELU)
    tl.store(destination_0_ptr + at, cotangent * value * slope, mask=at < SIZE)
    tl.store(destination_1_ptr + at, cotangent * activated, mask=at < SIZE)


def make_gated_unit(*, gelu: bool) -> GatedUnit:
    """Returns the differentiable function of gate, value and mode, with gelu or silu as its activation."""

    @partial(jax.custom_vjp, nondiff_argnums=(2,))
    def gated_unit(gate: jax.Array, value: jax.Array, mode: Mode) -> jax.Array:
        (output,), _ = overwriting_call(
            gated_unit_kernel,
            gate,
            value,
            written=(),
            outputs=(jax.ShapeDtypeStruct(gate.shape, gate.dtype),),
            mode=Mode.OUT_OF_PLACE,
            GELU=gelu,
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
            gated_unit_backward_kernel,
            *residuals,
            cotangent,
            written=(0, 1),
            outputs=(jax.ShapeDtypeStruct(launch["grid"], jnp.float32),),  # zeros: what `trivial` adds
            mode=mode,
            GELU=gelu,
            **launch,
        )
        return gradients[0], gradients[1]

    gated_unit.defvjp(forward, backward)
    return gated_unit


def apply_gated_unit(gated_unit: GatedUnit, gate: jax.Array, value: jax.Array, mode: str) -> jax.Array:
    """Returns the gated unit of two float arrays, in their shape and dtype; raises ValueError if these differ."""
    if gate.shape != value.shape or gate.dtype != value.dtype:
        raise ValueError(
            f"Expected gate and value of one shape and dtype but got {gate.shape=} {gate.dtype=} "
            f"{value.shape=} {value.dtype=}"
        )
    mode = Mode(mode)
    return gated_unit(gate, value, mode) if gate.size else gate


def _describe_launch(size: int) -> dict[str, Any]:
    return {"grid": (triton.cdiv(size, BLOCK),), "num_warps": WARPS, "SIZE": size, "BLOCK": BLOCK}
