"""The seed's cross entropy kernel alone: the loss, and the gradient in place of the logits, without autodiff."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.seed_flce.triton import launch

type Launch = Callable[[jax.Array, jax.Array, jax.Array, LossOptions], tuple[jax.Array, jax.Array]]
"""A function of the rows of logits, their targets, the divisor of a mean and the options; returns losses and gradient."""


def cross_entropy_with_gradient(
    logits: jax.Array,
    targets: jax.Array,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    mode: str = "aliased",
    launch: Launch = launch,
) -> tuple[jax.Array, jax.Array]:
    """Returns the loss and its gradient, without autodiff.

    logits: bf16, f16 or f32[..., vocabulary]; targets: int[...]. The loss is f32[] or, for reduction `none`, f32[...] in
    the shape of the targets; the gradient has shape and dtype of the logits. For `none`, each row of the gradient is the
    gradient of this row's loss. launch: the function that launches the kernel, `triton.launch` or `pallas.launch`.
    """
    options = LossOptions(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction, mode=mode)
    if logits.ndim < 1 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"Expected logits (..., vocabulary) and targets (...) but got {logits.shape=} and {targets.shape=}"
        )
    if not logits.size:
        raise ValueError(f"Expected at least one row of at least one logit but got {logits.shape=}")
    rows = logits.reshape(-1, logits.shape[-1])
    row_targets = targets.reshape(-1).astype(jnp.int32)
    count = jnp.maximum(1, (row_targets != options.ignore_index).sum()).astype(jnp.float32)
    losses, gradient = launch(rows, row_targets, count, options)
    loss = losses.reshape(targets.shape) if options.reduction is Reduction.NONE else losses.sum()
    return loss, gradient.reshape(logits.shape)
