"""The Triton kernel: a single program."""

import triton
import triton.language as tl


@triton.jit
def multiply_range_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    x_ptr,
    y_ptr,
    destination_ptr,
    START: tl.constexpr,
    END: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = x_ptr
    at = START + tl.arange(0, BLOCK)
    product = tl.load(x_ptr + at, mask=at < END) * tl.load(y_ptr + at, mask=at < END)
    tl.store(destination_ptr + at, product, mask=at < END)
