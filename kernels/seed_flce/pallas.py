"""The kernel for Pallas on Triton, one program for each row, and its launch.

Pallas lets a kernel store to the reference of an input. It copies nothing for that and declares nothing: the Triton IR
stores through the operand's pointer, and the call does not say so.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.modes import Mode

_MODES = (Mode.ALIASED, Mode.OUT_OF_PLACE, Mode.HIDDEN)


def launch(
    logits: jax.Array, targets: jax.Array, count: jax.Array, options: LossOptions
) -> tuple[jax.Array, jax.Array]:
    """Returns the losses, f32[rows], and the gradient, in the shape and dtype of `logits`: the array that has the new
    contents of the logits in `options.mode` (see `kernels.modes.Mode`).

    logits: float[rows, vocabulary], the vocabulary a power of two; targets: i32[rows]; count: f32[], the
    divisor of a mean.
    """
    rows, vocabulary = logits.shape
    if vocabulary & (vocabulary - 1):
        raise ValueError(f"Expected a vocabulary that is a power of two but got {vocabulary=}")
    if options.mode not in _MODES:
        raise ValueError(f"Expected one of {', '.join(_MODES)} but got mode='{options.mode}'")
    row = pl.BlockSpec((None, vocabulary), lambda i: (i, 0))
    number = pl.BlockSpec((1,), lambda i: (i,))
    losses, gradient = jax.ShapeDtypeStruct((rows,), jnp.float32), jax.ShapeDtypeStruct(logits.shape, logits.dtype)
    hidden = options.mode is Mode.HIDDEN
    results = pl.pallas_call(
        partial(_cross_entropy_in_place if hidden else _cross_entropy, options=options),
        grid=(rows,),
        in_specs=[row, number, pl.BlockSpec((1,), lambda i: (0,))],
        out_specs=[number] if hidden else [row, number],
        out_shape=[losses] if hidden else [gradient, losses],
        input_output_aliases={0: 0} if options.mode is Mode.ALIASED else {},
        compiler_params=pallas_triton.CompilerParams(),
    )(logits, targets, count[None])
    return (results[0], logits) if hidden else (results[1], results[0])


def _cross_entropy_in_place(logits_ref: Any, targets_ref: Any, count_ref: Any, loss_ref: Any, *, options: Any) -> None:
    _cross_entropy(logits_ref, targets_ref, count_ref, logits_ref, loss_ref, options=options)


def _cross_entropy(
    logits_ref: Any, targets_ref: Any, count_ref: Any, gradient_ref: Any, loss_ref: Any, *, options: LossOptions
) -> None:
    (vocabulary,) = logits_ref.shape
    smoothing = options.label_smoothing
    logits = logits_ref[...].astype(jnp.float32)
    target, count = targets_ref[0], count_ref[0]
    scale = 1.0 / count if options.reduction is Reduction.MEAN else 1.0
    ignored = target == options.ignore_index
    # A target outside of the vocabulary makes the loss and the gradient of its row NaN.
    scale = jnp.where((target >= 0) & (target < vocabulary), scale, jnp.nan)
    is_target = jnp.arange(vocabulary, dtype=jnp.int32) == target
    maximum = jnp.max(logits)
    exponentials = jnp.exp(logits - maximum)
    denominator = jnp.sum(exponentials)
    log_denominator = maximum + jnp.log(denominator)
    loss = log_denominator - (1.0 - smoothing) * jnp.sum(jnp.where(is_target, logits, 0.0))
    if smoothing:
        loss -= smoothing / vocabulary * jnp.sum(logits)
    gradient = exponentials / denominator - smoothing / vocabulary - jnp.where(is_target, 1.0 - smoothing, 0.0)
    loss_ref[0] = jnp.where(ignored, 0.0, loss * scale)
    gradient_ref[...] = jnp.where(ignored, 0.0, gradient * scale).astype(gradient_ref.dtype)
