"""The kernels, one program a block of elements."""

import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, value_ptr, output_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < SIZE).to(tl.float32)
    value = tl.load(value_ptr + at, mask=at < SIZE).to(tl.float32)
    tl.store(output_ptr + at, gate * tl.sigmoid(gate) * value, mask=at < SIZE)


@triton.jit
def swiglu_backward_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
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
    sigmoid = tl.sigmoid(gate)
    activated = gate * sigmoid
    # d/dg g sigmoid(g) = sigmoid(g) + g sigmoid(g) (1 - sigmoid(g))
    slope = sigmoid + activated * (1.0 - sigmoid)
    tl.store(destination_0_ptr + at, cotangent * value * slope, mask=at < SIZE)
    tl.store(destination_1_ptr + at, cotangent * activated, mask=at < SIZE)
