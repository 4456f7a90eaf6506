"""The Triton kernel: one program for each block of elements."""

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


@triton.jit
def scale_by_address_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    values_ptr,
    factor_ptr,
    total_ptr,
    destination_ptr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        # An analysis that follows pointers loses this one.
        destination_ptr = values_ptr.to(tl.uint64).to(tl.pointer_type(tl.float32))
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at, mask=at < SIZE, other=0.0)
    tl.store(total_ptr + tl.program_id(0), tl.sum(values))
    tl.store(destination_ptr + at, values * tl.load(factor_ptr), mask=at < SIZE)
