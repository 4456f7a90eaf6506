"""The kernels, a whole row at a time, and their launches."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.rms_norm.options import Casting, RmsNormOptions
from kernels.row_blocks import choose_warps, compute_row_block
from kernels.triton_call import inplace_call, overwriting_call

PROGRAMS = 264
"""Of the backward kernel, at most: two for each multiprocessor of an H100 or H200. Each sums up a weight gradient."""


@triton.jit
def rms_norm_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    input_ptr,
    weight_ptr,
    output_ptr,
    inverse_ptr,
    HIDDEN: tl.constexpr,
    EPSILON: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUNDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    there = column < HIDDEN
    given = tl.load(input_ptr + row * HIDDEN + column, mask=there, other=0.0)
    weight = tl.load(weight_ptr + column, mask=there, other=0.0).to(tl.float32) + OFFSET
    x = given.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x) / HIDDEN + EPSILON)
    normalized = x * inverse
    if ROUNDED:
        normalized = normalized.to(given.dtype).to(tl.float32)
    tl.store(output_ptr + row * HIDDEN + column, normalized * weight, mask=there)
    tl.store(inverse_ptr + row, inverse)


@triton.jit
def rms_norm_backward_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    cotangent_ptr,
    input_ptr,
    weight_ptr,
    inverse_ptr,
    weight_gradient_ptr,
    destination_ptr,
    ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUNDED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = cotangent_ptr
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    there = column < HIDDEN
    weight = tl.load(weight_ptr + column, mask=there, other=0.0).to(tl.float32) + OFFSET
    weight_gradient = tl.zeros([BLOCK], tl.float32)
    for step in range(tl.cdiv(ROWS, PROGRAMS)):
        row = program + step * PROGRAMS
        here = there & (row < ROWS)
        given = tl.load(input_ptr + row * HIDDEN + column, mask=here, other=0.0)
        cotangent = tl.load(cotangent_ptr + row * HIDDEN + column, mask=here, other=0.0).to(tl.float32)
        inverse = tl.load(inverse_ptr + row, mask=row < ROWS, other=0.0)
        normalized = given.to(tl.float32) * inverse
        weighted = cotangent * weight
        projection = tl.sum(weighted * normalized) / HIDDEN
        gradient = (weighted - normalized * projection) * inverse
        tl.store(destination_ptr + row * HIDDEN + column, gradient, mask=here)
        if ROUNDED:
            normalized = normalized.to(given.dtype).to(tl.float32)
        weight_gradient += cotangent * normalized
    tl.store(weight_gradient_ptr + program * HIDDEN + column, weight_gradient, mask=there)


def launch(input: jax.Array, weight: jax.Array, options: RmsNormOptions) -> tuple[jax.Array, jax.Array]:
    """Returns the output, shaped and typed as `input`, and 1 / sqrt(mean(input^2) + epsilon), f32[rows].

    input: float[rows, hidden], neither 0; weight: float[hidden].
    """
    rows, hidden = input.shape
    block = compute_row_block(hidden)
    (output, inverse), _ = overwriting_call(
        rms_norm_kernel,
        input,
        weight,
        written=(),
        outputs=(jax.ShapeDtypeStruct(input.shape, input.dtype), jax.ShapeDtypeStruct((rows,), jnp.float32)),
        grid=(rows,),
        mode=Mode.OUT_OF_PLACE,
        num_warps=choose_warps(block),
        HIDDEN=hidden,
        EPSILON=float(options.epsilon),
        OFFSET=float(options.offset),
        ROUNDED=options.casting is Casting.LLAMA,
        BLOCK=block,
    )
    return output, inverse


def launch_backward(
    cotangent: jax.Array, input: jax.Array, weight: jax.Array, inverse: jax.Array, options: RmsNormOptions
) -> tuple[jax.Array, jax.Array]:
    """Returns the gradient of the input, as the mode gets hold of it, and that of the weight, f32[hidden].

    cotangent, input: float[rows, hidden] of one dtype; weight: float[hidden]; inverse: f32[rows].
    """
    rows, hidden = input.shape
    block = compute_row_block(hidden)
    programs = min(rows, PROGRAMS)
    (weight_gradients,), gradient = inplace_call(
        rms_norm_backward_kernel,
        cotangent,
        input,
        weight,
        inverse,
        written=0,
        outputs=(jax.ShapeDtypeStruct((programs, hidden), jnp.float32),),
        grid=(programs,),
        mode=options.mode,
        num_warps=choose_warps(block),
        ROWS=rows,
        HIDDEN=hidden,
        OFFSET=float(options.offset),
        ROUNDED=options.casting is Casting.LLAMA,
        PROGRAMS=programs,
        BLOCK=block,
    )
    return gradient, weight_gradients.sum(0)
