"""The Triton kernel, one program for each row, and its launch."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.triton_call import inplace_call

MAX_BLOCK = 32768
"""Largest number of elements of a row that one program holds at one time."""


@triton.jit
def cross_entropy_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    logits_ptr,
    targets_ptr,
    count_ptr,
    loss_ptr,
    destination_ptr,
    VOCABULARY: tl.constexpr,
    IGNORE_INDEX: tl.constexpr,
    LABEL_SMOOTHING: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if destination_ptr is None:
        destination_ptr = logits_ptr
    logits_ptr += row * VOCABULARY
    destination_ptr += row * VOCABULARY
    target = tl.load(targets_ptr + row)
    if target == IGNORE_INDEX:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(destination_ptr + column, 0.0, mask=column < VOCABULARY)
        tl.store(loss_ptr + row, 0.0)
        return

    scale = 1.0
    if MEAN:
        scale = 1.0 / tl.load(count_ptr)
    exists = (target >= 0) & (target < VOCABULARY)
    at_target = tl.load(logits_ptr + target, mask=exists, other=float("nan")).to(tl.float32)

    # Milakov and Gimelshein, algorithm 3, a block at a time; a row may begin with blocks of -inf.
    maximum = float("-inf")
    denominator = 0.0
    row_sum = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + column, mask=column < VOCABULARY, other=float("-inf")).to(tl.float32)
        if LABEL_SMOOTHING > 0:
            row_sum += tl.sum(tl.where(column < VOCABULARY, x, 0.0))
        higher = tl.maximum(maximum, tl.max(x))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        denominator = denominator * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift))
        maximum = higher
    # A target outside of the vocabulary makes the loss and the gradient of its row NaN.
    maximum = tl.where(exists, maximum, float("nan"))

    smoothing: tl.constexpr = LABEL_SMOOTHING / VOCABULARY
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + column, mask=column < VOCABULARY, other=float("-inf")).to(tl.float32)
        gradient = (tl.exp(x - maximum) / denominator - smoothing) * scale
        tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY)
    tl.debug_barrier()

    log_denominator = maximum + tl.log(denominator)
    loss = (1.0 - LABEL_SMOOTHING) * (log_denominator - at_target)
    if LABEL_SMOOTHING > 0:
        loss += LABEL_SMOOTHING * log_denominator - smoothing * row_sum
    tl.store(loss_ptr + row, loss * scale)
    # Computed again rather than loaded: the gradient stands there rounded to the logits' dtype.
    gradient = (tl.exp(at_target - maximum) / denominator - smoothing - (1.0 - LABEL_SMOOTHING)) * scale
    tl.store(destination_ptr + target, gradient, mask=exists)


def launch(
    logits: jax.Array, targets: jax.Array, count: jax.Array, options: LossOptions
) -> tuple[jax.Array, jax.Array]:
    """Returns the losses, f32[rows], and the gradient, in the shape and dtype of `logits`: the array that has the new
    contents of the logits in `options.mode` (see `kernels.modes.Mode`).

    logits: float[rows, vocabulary]; targets: i32[rows]; count: f32[], the divisor of a mean.
    """
    rows, vocabulary = logits.shape
    (losses,), gradient = inplace_call(
        cross_entropy_kernel,
        logits,
        targets,
        count,
        written=0,
        outputs=(jax.ShapeDtypeStruct((rows,), jnp.float32),),
        grid=(rows,),
        mode=options.mode,
        num_warps=32,
        VOCABULARY=vocabulary,
        IGNORE_INDEX=options.ignore_index,
        LABEL_SMOOTHING=float(options.label_smoothing),
        MEAN=options.reduction is Reduction.MEAN,
        BLOCK=min(MAX_BLOCK, triton.next_power_of_2(vocabulary)),
    )
    return losses, gradient
