"""The Triton kernel: one program for each block of elements."""

import triton
import triton.language as tl


@triton.jit
def add_sum_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    values_ptr,
    total_ptr,
    copy_ptr,
    destination_ptr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = total_ptr
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at, mask=at < SIZE, other=0.0)
    tl.store(copy_ptr + at, values, mask=at < SIZE)
    tl.atomic_add(destination_ptr, tl.sum(values))
