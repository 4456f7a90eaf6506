"""The Triton kernels, one row at a time, and their launches."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.row_parts import WIDE, choose_stages, choose_warps, fold_parts, load_part, split_row, store_part, sum_pairs
from kernels.triton_call import inplace_call, overwriting_call

PROGRAMS = 264
"""Most programs of the backward kernel: two for each multiprocessor of an H100, one if rows are wide. Each sums two
gradients.
"""


class Moments(NamedTuple):
    """The mean of each row, f32[rows], and its `inverse`, 1 / sqrt(variance + epsilon), f32[rows]."""

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
    TAIL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    input_ptr += row * HIDDEN
    output_ptr += row * HIDDEN
    x = load_part(input_ptr, True, 0, BLOCK, HIDDEN).to(tl.float32)
    tail = x
    if TAIL > 0:
        tail = load_part(input_ptr, True, BLOCK, TAIL, HIDDEN).to(tl.float32)
    mean = tl.sum(fold_parts(x, tail, BLOCK, TAIL)) / HIDDEN
    x = tl.where(tl.arange(0, BLOCK) < HIDDEN, x - mean, 0.0)
    if TAIL > 0:
        tail = tl.where(BLOCK + tl.arange(0, TAIL) < HIDDEN, tail - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(fold_parts(x * x, tail * tail, BLOCK, TAIL)) / HIDDEN + EPSILON)
    tl.store(mean_ptr + row, mean)
    tl.store(inverse_ptr + row, inverse)
    # Loaded late, weight and bias hold no registers while the row is summed up.
    weight = load_part(weight_ptr, True, 0, BLOCK, HIDDEN).to(tl.float32)
    bias = load_part(bias_ptr, True, 0, BLOCK, HIDDEN).to(tl.float32)
    store_part(output_ptr, x * inverse * weight + bias, True, 0, BLOCK, HIDDEN)
    if TAIL > 0:
        weight = load_part(weight_ptr, True, BLOCK, TAIL, HIDDEN).to(tl.float32)
        bias = load_part(bias_ptr, True, BLOCK, TAIL, HIDDEN).to(tl.float32)
        store_part(output_ptr, tail * inverse * weight + bias, True, BLOCK, TAIL, HIDDEN)


@triton.jit
def layer_norm_backward_kernel(  # noqa: PLR0915, PLR0917 - Triton knows no keyword-only parameters
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
    TAIL: tl.constexpr,
    STAGES: tl.constexpr,
    RELOADED: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = cotangent_ptr
    program = tl.program_id(0).to(tl.int64)
    weight_gradient_ptr += program * HIDDEN
    bias_gradient_ptr += program * HIDDEN
    weight_gradient = tl.zeros([BLOCK], tl.float32)
    bias_gradient = tl.zeros([BLOCK], tl.float32)
    if not RELOADED:
        weight = load_part(weight_ptr, True, 0, BLOCK, HIDDEN)
    if TAIL > 0:
        weight_gradient_tail = tl.zeros([TAIL], tl.float32)
        bias_gradient_tail = tl.zeros([TAIL], tl.float32)
        if not RELOADED:
            weight_tail = load_part(weight_ptr, True, BLOCK, TAIL, HIDDEN)

    for step in tl.range(0, tl.cdiv(ROWS, PROGRAMS), num_stages=STAGES):
        row = program + step * PROGRAMS
        here = row < ROWS
        given = load_part(input_ptr + row * HIDDEN, here, 0, BLOCK, HIDDEN)
        cotangent = load_part(cotangent_ptr + row * HIDDEN, here, 0, BLOCK, HIDDEN).to(tl.float32)
        if RELOADED:  # for every row, from the cache: it holds no registers from one row to the next
            weight = load_part(weight_ptr, True, 0, BLOCK, HIDDEN)
        if TAIL > 0:
            given_tail = load_part(input_ptr + row * HIDDEN, here, BLOCK, TAIL, HIDDEN)
            cotangent_tail = load_part(cotangent_ptr + row * HIDDEN, here, BLOCK, TAIL, HIDDEN).to(tl.float32)
            if RELOADED:
                weight_tail = load_part(weight_ptr, True, BLOCK, TAIL, HIDDEN)
        mean = tl.load(mean_ptr + row, mask=here, other=0.0)
        inverse = tl.load(inverse_ptr + row, mask=here, other=0.0)

        # Behind the row's end the cotangent is 0, and so is everything that is summed up.
        normalized = (given.to(tl.float32) - mean) * inverse
        weight_gradient += cotangent * normalized
        bias_gradient += cotangent
        weighted = cotangent * weight.to(tl.float32)
        projected = weighted * normalized
        weighted_tail = weighted
        projected_tail = projected
        if TAIL > 0:
            normalized_tail = (given_tail.to(tl.float32) - mean) * inverse
            weight_gradient_tail += cotangent_tail * normalized_tail
            bias_gradient_tail += cotangent_tail
            weighted_tail = cotangent_tail * weight_tail.to(tl.float32)
            projected_tail = weighted_tail * normalized_tail
        projection, shift = sum_pairs(
            fold_parts(projected, projected_tail, BLOCK, TAIL), fold_parts(weighted, weighted_tail, BLOCK, TAIL)
        )
        projection /= HIDDEN
        shift /= HIDDEN
        gradient = (weighted - normalized * projection - shift) * inverse
        store_part(destination_ptr + row * HIDDEN, gradient, here, 0, BLOCK, HIDDEN)
        if TAIL > 0:
            gradient_tail = (weighted_tail - normalized_tail * projection - shift) * inverse
            store_part(destination_ptr + row * HIDDEN, gradient_tail, here, BLOCK, TAIL, HIDDEN)

    store_part(weight_gradient_ptr, weight_gradient, True, 0, BLOCK, HIDDEN)
    store_part(bias_gradient_ptr, bias_gradient, True, 0, BLOCK, HIDDEN)
    if TAIL > 0:
        store_part(weight_gradient_ptr, weight_gradient_tail, True, BLOCK, TAIL, HIDDEN)
        store_part(bias_gradient_ptr, bias_gradient_tail, True, BLOCK, TAIL, HIDDEN)


def launch(input: jax.Array, weight: jax.Array, bias: jax.Array, epsilon: float) -> tuple[jax.Array, Moments]:
    """Returns the output, shaped and typed as `input`, and the moments of its rows.

    input: float[rows, hidden], both sizes above 0; weight, bias: float[hidden].
    """
    rows, hidden = input.shape
    parts = split_row(hidden)
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
        num_warps=choose_warps(parts["BLOCK"], most=8),
        HIDDEN=hidden,
        EPSILON=float(epsilon),
        **parts,
    )
    return output, Moments(mean, inverse)


def launch_backward(
    cotangent: jax.Array, input: jax.Array, weight: jax.Array, moments: Moments, mode: Mode
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the gradient of the input, as the new contents of `cotangent`, and the gradients of weight and bias,
    f32[hidden].

    cotangent, input: float[rows, hidden] of one dtype; weight: float[hidden].
    """
    rows, hidden = input.shape
    parts = split_row(hidden)
    block, elements = parts["BLOCK"], sum(parts.values())
    wide = elements > WIDE
    row_bytes = 2 * elements * input.dtype.itemsize
    with_weight = row_bytes + elements * weight.dtype.itemsize
    reloaded = wide and choose_stages(block, with_weight) > 1
    programs = min(rows, PROGRAMS // 2 if wide else PROGRAMS)
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
        num_warps=choose_warps(block, most=8 if block <= 4096 else 16),
        ROWS=rows,
        HIDDEN=hidden,
        PROGRAMS=programs,
        STAGES=choose_stages(block, with_weight if reloaded else row_bytes),
        RELOADED=reloaded,
        **parts,
    )
    return gradient, weight_gradients.sum(0), bias_gradients.sum(0)
