"""Cross entropy loss; if it is differentiated, its forward pass overwrites the logits with their gradient."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.cross_entropy.launch import launch_forward, launch_with_gradient
from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.cross_entropy.reduction import apply_where, reduce_losses, split_scale


def cross_entropy(
    logits: jax.Array,
    targets: jax.Array,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
    return_lse: bool = False,
    partitioned: bool = False,
    mode: str = "aliased",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Returns the loss, f32[] or, for reduction `none`, f32[...] in the shape of `targets`; differentiable in `logits`.

    logits: bf16, f16 or f32[..., vocabulary]; targets: int[...]; where: bool[...], false where a target is to be
    ignored. With `return_lse`, also returns the logsumexp of each row, f32[...], 0 where ignored; no gradient flows through
    it. See `reference.cross_entropy` for the formula, `LossOptions` for the options and `kernels.modes.Mode` for the modes.
    Raises ValueError for shapes that do not fit and for unknown options.
    """
    options = LossOptions(
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        logit_soft_cap=logit_soft_cap,
        z_loss=z_loss,
        reduction=reduction,
        partitioned=partitioned,
        mode=mode,
    )
    loss, lse = _cross_entropy(logits, apply_where(targets, where, options), options)
    return (loss, jax.lax.stop_gradient(lse)) if return_lse else loss


def cross_entropy_with_gradient(
    logits: jax.Array,
    targets: jax.Array,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> tuple[jax.Array, jax.Array]:
    """Returns the loss as `cross_entropy` does, and its gradient in shape and dtype of `logits`, without autodiff.

    For reduction `none`, each row of the gradient is the gradient of this row's loss.
    """
    options = LossOptions(
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        logit_soft_cap=logit_soft_cap,
        z_loss=z_loss,
        reduction=reduction,
        mode=mode,
    )
    (loss, _), (gradient, factor) = _forward(logits, apply_where(targets, where, options), options)
    return loss, gradient if factor is None else (factor * gradient).astype(gradient.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cross_entropy(logits: jax.Array, targets: jax.Array, options: LossOptions) -> tuple[jax.Array, jax.Array]:
    """Returns loss and logsumexp where no gradient is asked for."""
    _check(logits, targets)
    if not targets.size:
        losses = lse = jnp.zeros((0,), jnp.float32)
    else:
        losses, lse = launch_forward(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), options)
    return reduce_losses(losses, targets, options), lse.reshape(targets.shape)


type _Residuals = tuple[jax.Array, jax.Array | None]
"""The gradient and what it has still to be multiplied by."""


def _forward(
    logits: jax.Array, targets: jax.Array, options: LossOptions
) -> tuple[tuple[jax.Array, jax.Array], _Residuals]:
    _check(logits, targets)
    if not targets.size:
        return _cross_entropy(logits, targets, options), (logits, None)
    scale, factor = split_scale(logits.dtype, targets, options)
    losses, lse, gradient = launch_with_gradient(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), scale, options
    )
    results = reduce_losses(losses, targets, options), lse.reshape(targets.shape)
    return results, (gradient.reshape(logits.shape), factor)


def _backward(
    options: LossOptions, residuals: _Residuals, cotangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, None]:
    """XLA drops a multiplication by a constant 1, and fuses one by anything else into what uses the gradient."""
    gradient, factor = residuals
    cotangent = cotangents[0] if factor is None else cotangents[0] * factor
    if options.reduction is Reduction.NONE:
        cotangent = cotangent[..., None]
    return (cotangent * gradient).astype(gradient.dtype), None


def _check(logits: jax.Array, targets: jax.Array) -> None:
    if logits.ndim < 1 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"Expected logits (..., vocabulary) and targets (...) but got {logits.shape=} and {targets.shape=}"
        )
    if not logits.shape[-1]:
        raise ValueError(f"Expected a vocabulary of at least one logit but got {logits.shape=}")


_cross_entropy.defvjp(_forward, _backward)
