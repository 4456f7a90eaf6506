"""The Triton kernels, one row at a time, and their launches."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.rms_norm.options import Casting, RmsNormOptions
from kernels.row_parts import WIDE, choose_stages, choose_warps, fold_parts, load_part, split_row, store_part
from kernels.triton_call import inplace_call, overwriting_call

PROGRAMS = 264
"""Most programs of the backward kernel: two for each multiprocessor of an H100, one if rows are wide. Each sums
a gradient.
"""


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
    TAIL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    input_ptr += row * HIDDEN
    output_ptr += row * HIDDEN
    given = load_part(input_ptr, True, 0, BLOCK, HIDDEN)
    squares = given.to(tl.float32) * given.to(tl.float32)
    squares_tail = squares
    if TAIL > 0:
        given_tail = load_part(input_ptr, True, BLOCK, TAIL, HIDDEN)
        squares_tail = given_tail.to(tl.float32) * given_tail.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(fold_parts(squares, squares_tail, BLOCK, TAIL)) / HIDDEN + EPSILON)
    tl.store(inverse_ptr + row, inverse)
    # Loaded late, the weight holds no registers while the row is summed up.
    weight = load_part(weight_ptr, True, 0, BLOCK, HIDDEN).to(tl.float32) + OFFSET
    store_part(output_ptr, _normalize(given, inverse, ROUNDED) * weight, True, 0, BLOCK, HIDDEN)
    if TAIL > 0:
        weight_tail = load_part(weight_ptr, True, BLOCK, TAIL, HIDDEN).to(tl.float32) + OFFSET
        store_part(output_ptr, _normalize(given_tail, inverse, ROUNDED) * weight_tail, True, BLOCK, TAIL, HIDDEN)


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
    TAIL: tl.constexpr,
    STAGES: tl.constexpr,
):
    if destination_ptr is None:
        destination_ptr = cotangent_ptr
    program = tl.program_id(0).to(tl.int64)
    weight_gradient_ptr += program * HIDDEN
    weight = load_part(weight_ptr, True, 0, BLOCK, HIDDEN)
    weight_gradient = tl.zeros([BLOCK], tl.float32)
    if TAIL > 0:
        weight_tail = load_part(weight_ptr, True, BLOCK, TAIL, HIDDEN)
        weight_gradient_tail = tl.zeros([TAIL], tl.float32)

    for step in tl.range(0, tl.cdiv(ROWS, PROGRAMS), num_stages=STAGES):
        row = program + step * PROGRAMS
        here = row < ROWS
        given = load_part(input_ptr + row * HIDDEN, here, 0, BLOCK, HIDDEN)
        cotangent = load_part(cotangent_ptr + row * HIDDEN, here, 0, BLOCK, HIDDEN)
        if TAIL > 0:
            given_tail = load_part(input_ptr + row * HIDDEN, here, BLOCK, TAIL, HIDDEN)
            cotangent_tail = load_part(cotangent_ptr + row * HIDDEN, here, BLOCK, TAIL, HIDDEN)
        inverse = tl.load(inverse_ptr + row, mask=here, other=0.0)

        normalized = given.to(tl.float32) * inverse
        weighted = cotangent.to(tl.float32) * (weight.to(tl.float32) + OFFSET)
        projected = weighted * normalized
        projected_tail = projected
        weight_gradient += cotangent.to(tl.float32) * _normalize(given, inverse, ROUNDED)
        if TAIL > 0:
            normalized_tail = given_tail.to(tl.float32) * inverse
            weighted_tail = cotangent_tail.to(tl.float32) * (weight_tail.to(tl.float32) + OFFSET)
            projected_tail = weighted_tail * normalized_tail
            weight_gradient_tail += cotangent_tail.to(tl.float32) * _normalize(given_tail, inverse, ROUNDED)
        projection = tl.sum(fold_parts(projected, projected_tail, BLOCK, TAIL)) / HIDDEN
        gradient = (weighted - normalized * projection) * inverse
        store_part(destination_ptr + row * HIDDEN, gradient, here, 0, BLOCK, HIDDEN)
        if TAIL > 0:
            gradient_tail = (weighted_tail - normalized_tail * projection) * inverse
            store_part(destination_ptr + row * HIDDEN, gradient_tail, here, BLOCK, TAIL, HIDDEN)

    store_part(weight_gradient_ptr, weight_gradient, True, 0, BLOCK, HIDDEN)
    if TAIL > 0:
        store_part(weight_gradient_ptr, weight_gradient_tail, True, BLOCK, TAIL, HIDDEN)


@triton.jit
def _normalize(given, inverse, ROUNDED: tl.constexpr):
    normalized = given.to(tl.float32) * inverse
    if ROUNDED:
        normalized = normalized.to(given.dtype).to(tl.float32)
    return normalized


def launch(input: jax.Array, weight: jax.Array, options: RmsNormOptions) -> tuple[jax.Array, jax.Array]:
    """Returns the output, shaped and typed as `input`, and 1 / sqrt(mean(input^2) + epsilon), f32[rows].

    input: float[rows, hidden], both sizes above 0; weight: float[hidden].
    """
    rows, hidden = input.shape
    parts = split_row(hidden)
    (output, inverse), _ = overwriting_call(
        rms_norm_kernel,
        input,
        weight,
        written=(),
        outputs=(jax.ShapeDtypeStruct(input.shape, input.dtype), jax.ShapeDtypeStruct((rows,), jnp.float32)),
        grid=(rows,),
        mode=Mode.OUT_OF_PLACE,
        num_warps=choose_warps(parts["BLOCK"], most=8),
        HIDDEN=hidden,
        EPSILON=float(options.epsilon),
        OFFSET=float(options.offset),
        ROUNDED=options.casting is Casting.LLAMA,
        **parts,
    )
    return output, inverse


def launch_backward(
    cotangent: jax.Array, input: jax.Array, weight: jax.Array, inverse: jax.Array, options: RmsNormOptions
) -> tuple[jax.Array, jax.Array]:
    """Returns the gradient of the input, as the new contents of `cotangent`, and the gradient of the weight, f32[hidden].

    cotangent, input: float[rows, hidden] of one dtype; weight: float[hidden]; inverse: f32[rows].
    """
    rows, hidden = input.shape
    parts = split_row(hidden)
    programs = min(rows, PROGRAMS // 2 if sum(parts.values()) > WIDE else PROGRAMS)
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
        num_warps=choose_warps(parts["BLOCK"], most=16),
        ROWS=rows,
        HIDDEN=hidden,
        OFFSET=float(options.offset),
        ROUNDED=options.casting is Casting.LLAMA,
        PROGRAMS=programs,
        STAGES=choose_stages(parts["BLOCK"], 2 * sum(parts.values()) * input.dtype.itemsize),
        **parts,
    )
    return gradient, weight_gradients.sum(0)
