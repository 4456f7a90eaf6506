"""The kernels, one program a block of elements.

They write gelu by sigmoid, since (1 + tanh(u)) / 2 = sigmoid(2 u): with c = 2 sqrt(2 / pi),

    gelu(g) = g sigmoid(h(g)),   h(g) = c (g + 0.044715 g^3),   h'(g) = c (1 + 0.134145 g^2)
"""

import math

import triton
import triton.language as tl

TWICE_ROOT = tl.constexpr(2 * math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(0.044715)


@triton.jit
def geglu_kernel(gate_ptr, value_ptr, output_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < SIZE).to(tl.float32)
    value = tl.load(value_ptr + at, mask=at < SIZE).to(tl.float32)
    sigmoid = tl.sigmoid(TWICE_ROOT * (gate + CUBIC * gate * gate * gate))
    tl.store(output_ptr + at, gate * sigmoid * value, mask=at < SIZE)


@triton.jit
def geglu_backward_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    gate_ptr,
    value_ptr,
    cotangent_ptr,
    token_ptr,
    destination_0_ptr,
    destination_1_ptr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_0_ptr is None:
        destination_0_ptr = gate_ptr
    if destination_1_ptr is None:
        destination_1_ptr = value_ptr
    tl.store(token_ptr + tl.program_id(0), 0.0)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < SIZE).to(tl.float32)
    value = tl.load(value_ptr + at, mask=at < SIZE).to(tl.float32)
    cotangent = tl.load(cotangent_ptr + at, mask=at < SIZE).to(tl.float32)
    square = gate * gate
    sigmoid = tl.sigmoid(TWICE_ROOT * (gate + CUBIC * gate * square))
    activated = gate * sigmoid
    slope = sigmoid + activated * (1.0 - sigmoid) * (TWICE_ROOT * (1.0 + 3.0 * CUBIC * square))
    tl.store(destination_0_ptr + at, cotangent * value * slope, mask=at < SIZE)
    tl.store(destination_1_ptr + at, cotangent * activated, mask=at < SIZE)
