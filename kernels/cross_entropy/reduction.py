"""Computes the loss from the losses of the rows, and the factor of its gradient."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions, Reduction


def apply_where(targets: jax.Array, where: jax.Array | None, options: LossOptions) -> jax.Array:
    """Returns the targets, i32[...], replaced by `ignore_index` where `where` is false."""
    targets = targets.astype(jnp.int32)
    if where is None:
        return targets
    if where.shape != targets.shape:
        raise ValueError(f"Expected a mask in the shape of the targets but got {where.shape=} {targets.shape=}")
    return jnp.where(where, targets, options.ignore_index)


def compute_divisor(targets: jax.Array, options: LossOptions) -> jax.Array:
    """Returns the divisor of a mean, f32[]: the number of targets that are not ignored, at least 1."""
    return jnp.maximum(1, (targets != options.ignore_index).sum()).astype(jnp.float32)


def reduce_losses(losses: jax.Array, targets: jax.Array, options: LossOptions) -> jax.Array:
    """Returns the loss: f32[], or for the reduction `none` one loss for each target, f32[...]. losses: f32[rows]."""
    match options.reduction:
        case Reduction.NONE:
            return losses.reshape(targets.shape)
        case Reduction.SUM:
            return losses.sum()
        case Reduction.MEAN:
            return losses.sum() / compute_divisor(targets, options)


def split_scale(dtype: jnp.dtype, targets: jax.Array, options: LossOptions) -> tuple[jax.Array, jax.Array | None]:
    """Returns two factors of the gradient, f32[] each: one for the kernel, and one for the backward pass, None if the
    kernel's factor is all.

    For a mean, the factor 1 / count belongs to the kernel. In f16 it would make small gradients too small for the dtype. So
    the backward pass applies it, in f32 and together with the cotangent, which may be large (loss scaling).
    """
    one = jnp.float32(1)
    if options.reduction is not Reduction.MEAN:
        return one, None
    factor = 1.0 / compute_divisor(targets, options)
    return (one, factor) if dtype == jnp.float16 else (factor, None)
