"""The kernel: one program a block of elements."""

import triton
import triton.language as tl


@triton.jit
def scale_kernel(  # Triton knows no keyword-only parameters
    values_ptr,
    factor_ptr,
    destination_ptr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = values_ptr
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at, mask=at < SIZE).to(tl.float32)
    tl.store(destination_ptr + at, values * tl.load(factor_ptr), mask=at < SIZE)
