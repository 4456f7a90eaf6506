"""Linear layer and cross entropy loss; if differentiated, the forward pass also computes all gradients."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.cross_entropy.reduction import apply_where, reduce_losses, split_scale
from kernels.fused_linear_cross_entropy.chunks import Parameters, compute_losses, compute_losses_and_gradients
from kernels.fused_linear_cross_entropy.options import FusedOptions

LOGITS_BYTES = 512 * 2**20
"""Default for the largest number of bytes of the logits of one chunk."""


def fused_linear_cross_entropy(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
    return_lse: bool = False,
    logits_bytes: int = LOGITS_BYTES,
    accumulate: str = "input",
    vocabulary_axis: str | None = None,
    mode: str = "aliased",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Returns the loss, f32[] or, for reduction `none`, f32[...]; differentiable in `input`, `weight` and `bias`.

    input: bf16, f16 or f32[..., embedding]; weight: float[embedding, vocabulary]; targets: int[...];
    bias: float[vocabulary]; where: bool[...], false where a target is to be ignored. Weight and bias are cast to the
    input's dtype, and the logits have that dtype; all sums over logits are f32. With `return_lse`, also the logsumexp of the
    logits of each token, f32[...], 0 where ignored; no gradient flows through it.

    logits_bytes: the largest size of one chunk's logits, in bytes; mode `out_of_place` needs twice as much. accumulate: the
    dtype in which the gradient of the weight is summed over the chunks, `input` (the input's dtype) or `f32` (see
    `options.Accumulate`). vocabulary_axis: inside of a `shard_map`, the mesh axis over which weight and bias are split in
    the vocabulary; the targets are those of the whole vocabulary. No logits are gathered: the devices exchange one f32 a
    token, twice. For reduction `none` the backward pass computes the logits once more. See
    `reference.fused_linear_cross_entropy` for the formula, `LossOptions` for the other options and `kernels.modes.Mode` for
    the modes. Raises ValueError for shapes that do not fit and for unknown options.
    """
    options = FusedOptions(
        loss=LossOptions(
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            logit_soft_cap=logit_soft_cap,
            z_loss=z_loss,
            reduction=reduction,
            mode=mode,
        ),
        logits_bytes=logits_bytes,
        accumulate=accumulate,
        vocabulary_axis=vocabulary_axis,
    )
    loss, lse = _fused(input, weight, apply_where(targets, where, options.loss), bias, options)
    return (loss, jax.lax.stop_gradient(lse)) if return_lse else loss


type _Gradients = tuple[jax.Array, jax.Array, jax.Array | None]
"""Of input, weight and bias."""
type _Results = tuple[jax.Array, jax.Array]
"""Loss and logsumexp."""
type _Residuals = tuple[_Gradients, jax.Array | None] | tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]
"""The gradients and what they have still to be multiplied by; for reduction `none` the arguments."""


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _fused(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: FusedOptions
) -> _Results:
    """Returns loss and logsumexp where no gradient is asked for."""
    _check(input, weight, targets, bias)
    if not targets.size:
        losses = lse = jnp.zeros((0,), jnp.float32)
    else:
        losses, lse = compute_losses(_flatten(input), _cast(weight, bias, input), targets.reshape(-1), options)
    return reduce_losses(losses, targets, options.loss), lse.reshape(targets.shape)


def _forward(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: FusedOptions
) -> tuple[_Results, _Residuals]:
    if options.loss.reduction is Reduction.NONE or not targets.size:
        return _fused(input, weight, targets, bias, options), (input, weight, targets, bias)
    _check(input, weight, targets, bias)
    scale, factor = split_scale(input.dtype, targets, options.loss)
    losses, lse, gradients = _compute(input, weight, targets, bias, scale, options)
    return (reduce_losses(losses, targets, options.loss), lse.reshape(targets.shape)), (gradients, factor)


def _backward(
    options: FusedOptions, residuals: _Residuals, cotangents: _Results
) -> tuple[jax.Array, jax.Array, None, jax.Array | None]:
    """XLA drops a multiplication by a constant 1, and fuses one by anything else into what uses the gradient."""
    cotangent = cotangents[0]
    if options.vocabulary_axis is not None:  # each device's loss is that of all: theirs are parts of one cotangent
        cotangent = jax.lax.psum(cotangent, options.vocabulary_axis)
    match residuals:
        case (input, weight, targets, bias) if not targets.size:
            gradients = jnp.zeros_like(input), jnp.zeros_like(weight), None if bias is None else jnp.zeros_like(bias)
        case (input, weight, targets, bias):
            _, _, gradients = _compute(input, weight, targets, bias, cotangent.reshape(-1), options)
        case (gradients, factor):
            cotangent = cotangent if factor is None else cotangent * factor
            gradients = [None if g is None else (cotangent * g).astype(g.dtype) for g in gradients]
    grad_input, grad_weight, grad_bias = gradients
    return grad_input, grad_weight, None, grad_bias


def _compute(  # noqa: PLR0917
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None,
    scale: jax.Array,
    options: FusedOptions,
) -> tuple[jax.Array, jax.Array, _Gradients]:
    """Returns losses and logsumexp, f32[tokens], and the gradients, shaped and typed as what they are gradients of."""
    results = compute_losses_and_gradients(
        _flatten(input), _cast(weight, bias, input), targets.reshape(-1), scale, options
    )
    sums = results.sums
    grad_bias = None if bias is None else sums.bias.astype(bias.dtype)
    return (
        results.losses,
        results.lse,
        (results.input.reshape(input.shape), sums.weight.astype(weight.dtype), grad_bias),
    )


def _flatten(input: jax.Array) -> jax.Array:
    return input.reshape(-1, input.shape[-1])


def _cast(weight: jax.Array, bias: jax.Array | None, input: jax.Array) -> Parameters:
    return Parameters(weight.astype(input.dtype), None if bias is None else bias.astype(input.dtype))


def _check(input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None) -> None:
    if weight.ndim != 2 or input.shape != (*targets.shape, weight.shape[0]):
        raise ValueError(
            "Expected input (..., embedding), weight (embedding, vocabulary) and targets (...) "
            f"but got {input.shape=} {weight.shape=} {targets.shape=}"
        )
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(f"Expected bias (vocabulary,) but got {bias.shape=} {weight.shape=}")
    if not weight.size:
        raise ValueError(f"Expected an embedding and a vocabulary of at least 1 but got {weight.shape=}")


_fused.defvjp(_forward, _backward)
