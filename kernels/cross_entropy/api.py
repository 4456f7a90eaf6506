"""Cross entropy loss whose forward pass leaves the gradient where the logits were."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.cross_entropy.triton import launch

type Launch = Callable[[jax.Array, jax.Array, jax.Array, LossOptions], tuple[jax.Array, jax.Array]]
"""From rows of logits, their targets, what a mean divides by and the options to losses and gradient."""


def cross_entropy(
    logits: jax.Array,
    targets: jax.Array,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> jax.Array:
    """Returns the loss, f32[] or, for reduction `none`, f32[...] in the shape of `targets`; differentiable in `logits`.

    logits: bf16, f16 or f32[..., vocabulary]; targets: int[...]. See `reference.cross_entropy` for the formula,
    `LossOptions` for the options and `kernels.modes.Mode` for the modes.
    """
    options = LossOptions(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction, mode=mode)
    return _cross_entropy(logits, targets, options)


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
    """Returns the loss as `cross_entropy` does, and its gradient in shape and dtype of `logits`, without autodiff.

    For reduction `none` it is each row's own gradient. launch: the kernel, `triton.launch` or `pallas.launch`.
    """
    options = LossOptions(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction, mode=mode)
    return _loss_and_gradient(logits, targets, options, launch)


def _loss_and_gradient(
    logits: jax.Array, targets: jax.Array, options: LossOptions, launch: Launch = launch
) -> tuple[jax.Array, jax.Array]:
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


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cross_entropy(logits: jax.Array, targets: jax.Array, options: LossOptions) -> jax.Array:
    return _loss_and_gradient(logits, targets, options)[0]


def _backward(options: LossOptions, gradient: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, None]:
    if options.reduction is Reduction.NONE:
        cotangent = cotangent[..., None]
    return (cotangent * gradient).astype(gradient.dtype), None


_cross_entropy.defvjp(_loss_and_gradient, _backward)
