"""Linear layer and cross entropy loss whose forward pass also computes the gradients of input, weight and bias."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.seed_flce.chunks import LossAndGradients, compute_loss_and_gradients


def fused_linear_cross_entropy(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> jax.Array:
    """Returns the loss, f32[]; differentiable in `input`, `weight` and `bias`.

    input: bf16, f16 or f32[..., embedding]; weight: float[embedding, vocabulary]; targets: int[...];
    bias: float[vocabulary]; where: bool[...], false where a target is to be ignored. Computes in the input's
    dtype, the loss in f32. reduction: `mean` or `sum`. See `reference.fused_linear_cross_entropy` for the formula,
    `LossOptions` for the options and `kernels.modes.Mode` for the modes.
    """
    options = LossOptions(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction, mode=mode)
    return _fused(input, weight, _apply_mask(targets, where, options), bias, options)


def fused_linear_cross_entropy_with_gradients(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> dict[str, jax.Array]:
    """Returns `loss` and the gradients `input`, `weight` and, if there is one, `bias`, without autodiff."""
    options = LossOptions(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction, mode=mode)
    results = _loss_and_gradients(input, weight, _apply_mask(targets, where, options), bias, options)
    return {name: result for name, result in results._asdict().items() if result is not None}


def _apply_mask(targets: jax.Array, where: jax.Array | None, options: LossOptions) -> jax.Array:
    targets = targets.astype(jnp.int32)
    if where is None:
        return targets
    if where.shape != targets.shape:
        raise ValueError(f"Expected a mask in the shape of the targets but got {where.shape=} {targets.shape=}")
    return jnp.where(where, targets, options.ignore_index)


def _loss_and_gradients(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: LossOptions
) -> LossAndGradients:
    if options.reduction is Reduction.NONE:
        raise ValueError("Expected one of mean, sum but got reduction='none': gradients are summed over the tokens")
    if weight.ndim != 2 or input.shape != (*targets.shape, weight.shape[0]):
        raise ValueError(
            "Expected input (..., embedding), weight (embedding, vocabulary) and targets (...) "
            f"but got {input.shape=} {weight.shape=} {targets.shape=}"
        )
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(f"Expected bias (vocabulary,) but got {bias.shape=} {weight.shape=}")
    if not input.size or not weight.size:
        raise ValueError(f"Expected at least one token and one logit but got {input.shape=} {weight.shape=}")
    results = compute_loss_and_gradients(input.reshape(-1, input.shape[-1]), weight, targets.reshape(-1), bias, options)
    return results._replace(input=results.input.reshape(input.shape))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _fused(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: LossOptions
) -> jax.Array:
    return _loss_and_gradients(input, weight, targets, bias, options).loss


def _forward(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: LossOptions
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array | None]]:
    loss, *gradients = _loss_and_gradients(input, weight, targets, bias, options)
    return loss, tuple(gradients)


def _backward(
    options: LossOptions, gradients: tuple[jax.Array, jax.Array, jax.Array | None], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, None, jax.Array | None]:
    grad_input, grad_weight, grad_bias = (
        None if gradient is None else (cotangent * gradient).astype(gradient.dtype) for gradient in gradients
    )
    return grad_input, grad_weight, None, grad_bias


_fused.defvjp(_forward, _backward)
