"""The kernels, a whole row at a time, and their launches."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.row_blocks import choose_warps, compute_row_block
from kernels.triton_call import inplace_call, overwriting_call

PROGRAMS = 264
"""Of the backward kernel, at most: two for each multiprocessor of an H100 or H200. Each sums up two gradients."""


class Moments(NamedTuple):
    """mean, inverse: f32[rows], the mean of each row and 1 / sqrt(variance + epsilon)."""

    mean: jax.Array
    inverse: jax.Array


@triton.jit
def layer_norm_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    input_ptr,
    weight_ptr,
    bias_ptr,
    output_ptr,
    mean_ptr,
    inverse_ptr,
    HIDDEN: tl.constexpr,
    EPSILON: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    there = column < HIDDEN
    x = tl.load(input_ptr + row * HIDDEN + column, mask=there, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=there, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(x) / HIDDEN
    centered = tl.where(there, x - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(centered * centered) / HIDDEN + EPSILON)
    tl.store(output_ptr + row * HIDDEN + column, centered * inverse * weight + bias, mask=there)
    tl.store(mean_ptr + row, mean)
    tl.store(inverse_ptr + row, inverse)


@triton.jit
def layer_norm_backward_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    cotangent_ptr,
    input_ptr,
    weight_ptr,
    mean_ptr,
    inverse_ptr,
    weight_gradient_ptr,
    bias_gradient_ptr,
    destination_ptr,
    ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = cotangent_ptr
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    there = column < HIDDEN
    weight = tl.load(weight_ptr + column, mask=there, other=0.0).to(tl.float32)
    weight_gradient = tl.zeros([BLOCK], tl.float32)
    bias_gradient = tl.zeros([BLOCK], tl.float32)
    for step in range(tl.cdiv(ROWS, PROGRAMS)):
        row = program + step * PROGRAMS
        here = there & (row < ROWS)
        x = tl.load(input_ptr + row * HIDDEN + column, mask=here, other=0.0).to(tl.float32)
        cotangent = tl.load(cotangent_ptr + row * HIDDEN + column, mask=here, other=0.0).to(tl.float32)
        inverse = tl.load(inverse_ptr + row, mask=row < ROWS, other=0.0)
        normalized = (x - tl.load(mean_ptr + row, mask=row < ROWS, other=0.0)) * inverse
        weighted = cotangent * weight
        projection = tl.sum(weighted * normalized) / HIDDEN
        mean = tl.sum(weighted) / HIDDEN
        gradient = (weighted - normalized * projection - mean) * inverse
        tl.store(destination_ptr + row * HIDDEN + column, gradient, mask=here)
        weight_gradient += cotangent * normalized
        bias_gradient += cotangent
    tl.store(weight_gradient_ptr + program * HIDDEN + column, weight_gradient, mask=there)
    tl.store(bias_gradient_ptr + program * HIDDEN + column, bias_gradient, mask=there)


def launch(input: jax.Array, weight: jax.Array, bias: jax.Array, epsilon: float) -> tuple[jax.Array, Moments]:
    """Returns the output, shaped and typed as `input`, and the moments of its rows.

    input: float[rows, hidden], neither 0; weight, bias: float[hidden].
    """
    rows, hidden = input.shape
    block = compute_row_block(hidden)
    moment = jax.ShapeDtypeStruct((rows,), jnp.float32)
    (output, mean, inverse), _ = overwriting_call(
        layer_norm_kernel,
        input,
        weight,
        bias,
        written=(),
        outputs=(jax.ShapeDtypeStruct(input.shape, input.dtype), moment, moment),
        grid=(rows,),
        mode=Mode.OUT_OF_PLACE,
        num_warps=choose_warps(block),
        HIDDEN=hidden,
        EPSILON=float(epsilon),
        BLOCK=block,
    )
    return output, Moments(mean, inverse)


def launch_backward(
    cotangent: jax.Array, input: jax.Array, weight: jax.Array, moments: Moments, mode: Mode
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the gradient of the input, as the mode gets hold of it, and those of weight and bias, f32[hidden].

    cotangent, input: float[rows, hidden] of one dtype; weight: float[hidden].
    """
    rows, hidden = input.shape
    block = compute_row_block(hidden)
    programs = min(rows, PROGRAMS)
    sums = jax.ShapeDtypeStruct((programs, hidden), jnp.float32)
    (weight_gradients, bias_gradients), gradient = inplace_call(
        layer_norm_backward_kernel,
        cotangent,
        input,
        weight,
        *moments,
        written=0,
        outputs=(sums, sums),
        grid=(programs,),
        mode=mode,
        num_warps=choose_warps(block),
        ROWS=rows,
        HIDDEN=hidden,
        PROGRAMS=programs,
        BLOCK=block,
    )
    return gradient, weight_gradients.sum(0), bias_gradients.sum(0)
