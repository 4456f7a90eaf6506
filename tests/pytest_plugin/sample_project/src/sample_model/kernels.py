"""Clips activations in place, and counts the clipped ones."""

import jax
import jax_triton
import triton
import triton.language as tl


@triton.jit
def clip_kernel(x_ptr, count_ptr, new_x_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(count_ptr + row, tl.sum((x > 1.0).to(tl.float32)))
    destination = x_ptr if new_x_ptr is None else new_x_ptr
    tl.store(destination + offsets, tl.minimum(x, 1.0))


def clip_in_place(x, mode):
    """mode: `aliased` declares the write to XLA, `hidden` does not."""
    rows, columns = x.shape
    count = jax.ShapeDtypeStruct((rows,), x.dtype)
    call = {"kernel": clip_kernel, "grid": (rows,), "COLUMNS": columns}
    if mode == "aliased":
        return jax_triton.triton_call(x, out_shape=(count, x), input_output_aliases={0: 1}, **call)
    return jax_triton.triton_call(x, out_shape=count, new_x_ptr=None, **call), x
