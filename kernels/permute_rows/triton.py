"""The Triton kernel: one program for each row."""

import triton
import triton.language as tl


@triton.jit
def permute_rows_kernel(
    values_ptr,
    source_ptr,
    destination_ptr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = values_ptr
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    source = tl.load(source_ptr + row).to(tl.int64)
    values = tl.load(values_ptr + source * COLUMNS + column, mask=column < COLUMNS)
    tl.store(destination_ptr + row * COLUMNS + column, values, mask=column < COLUMNS)
