"""The Triton kernel: one program for each block of elements."""

import triton
import triton.language as tl


@triton.jit
def add_scaled_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    residual_ptr,
    factor_ptr,
    direction_ptr,
    updated_ptr,
    squares_ptr,
    destination_ptr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = updated_ptr
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    residual = tl.load(residual_ptr + at, mask=at < SIZE, other=0.0)
    direction = tl.load(direction_ptr + at, mask=at < SIZE, other=0.0)
    updated = residual + tl.load(factor_ptr) * direction
    tl.store(destination_ptr + at, updated, mask=at < SIZE)
    tl.store(squares_ptr + tl.program_id(0), tl.sum(updated * updated))
