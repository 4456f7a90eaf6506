"""Computes the loss in a `shard_map` in which each device has the logits of one part of the vocabulary.

- Each device computes the logsumexp of its part, `part`. The logsumexp of the whole row is `m + log(sum(exp(part - m)))`
  over the devices, where `m` is the maximum of `part` over the devices. The devices exchange one f32 for each row, twice,
  and no logit.
- Then each device writes the gradient over its own logits. It is a softmax with the logsumexp of the whole row, minus 1 at
  the target on the device that has the target. This takes one launch more than `kernels.cross_entropy`, and moves as many
  bytes.
- The logit at the target comes from the kernel that overwrites it: nothing else reads the logits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.cross_entropy.launch import Losses, LossesAndGradient, launch_forward
from kernels.cross_entropy.options import LossOptions
from kernels.cross_entropy.triton import load_logits
from kernels.launches import find_launch
from kernels.triton_call import inplace_call

_ELSEWHERE, _IGNORED, _NOWHERE = -1, -2, -3
"""Values that replace a target that another device has, that is ignored, or that is not in the vocabulary."""
_LOG2_E = tl.constexpr(1.4426950408889634)


class _Rows(NamedTuple):
    """targets: i32[rows], of this part, or one of the three above; lse: f32[rows], of the whole vocabulary."""

    targets: jax.Array
    lse: jax.Array


def launch_part(logits: jax.Array, targets: jax.Array, axis: str, options: LossOptions) -> Losses:
    """Returns the losses of the rows, the same on each device. Each device has a part of the logits, and otherwise this does
    the same as `kernels.cross_entropy.launch.launch_forward`.

    logits: float[rows, part of the vocabulary]; targets: i32[rows], of the whole vocabulary.
    """
    rows = _compute_rows(logits, targets, axis, options)
    column = jnp.clip(rows.targets, 0)[:, None]
    at_target = jnp.take_along_axis(logits, column, 1)[:, 0].astype(jnp.float32)
    if options.logit_soft_cap:
        at_target = options.logit_soft_cap * jnp.tanh(at_target / options.logit_soft_cap)
    return _compute_losses(rows, jnp.where(rows.targets >= 0, at_target, 0.0), axis, options)


def launch_part_with_gradient(
    logits: jax.Array, targets: jax.Array, scale: jax.Array, axis: str, options: LossOptions
) -> LossesAndGradient:
    """Returns the losses that `launch_part` returns, and `scale` times the gradient of this part's logits. scale: f32[]
    or f32[rows].
    """
    rows = _compute_rows(logits, targets, axis, options)
    configuration = find_launch("cross_entropy")
    (at_target,), gradient = inplace_call(
        _gradient_kernel,
        logits,
        rows.targets,
        rows.lse,
        scale,
        written=0,
        outputs=(jax.ShapeDtypeStruct(targets.shape, jnp.float32),),
        grid=targets.shape,
        mode=options.mode,
        num_warps=configuration.warps,
        VOCABULARY=logits.shape[1],
        IGNORED=_IGNORED,
        NOWHERE=_NOWHERE,
        SCALE_STRIDE=scale.ndim,
        SOFT_CAP=float(options.logit_soft_cap or 0.0),
        Z_LOSS=float(options.z_loss),
        BLOCK=configuration.compute_block(logits.shape[1], logits.dtype.itemsize),
    )
    return LossesAndGradient(*_compute_losses(rows, at_target, axis, options), gradient)


def _compute_rows(logits: jax.Array, targets: jax.Array, axis: str, options: LossOptions) -> _Rows:
    part = logits.shape[1]
    whole = part * jax.lax.axis_size(axis)
    ignored = targets == options.ignore_index
    own = targets - jax.lax.axis_index(axis) * part
    own = jnp.where((own >= 0) & (own < part), own, _ELSEWHERE)
    own = jnp.where((targets >= 0) & (targets < whole), own, _NOWHERE)
    lse = launch_forward(logits, jnp.where(ignored, targets, 0), options).lse
    highest = jax.lax.pmax(lse, axis)
    shift = jnp.where(jnp.isfinite(highest), highest, 0.0)  # a part may be -inf altogether
    lse = shift + jnp.log(jax.lax.psum(jnp.exp(lse - shift), axis))
    return _Rows(jnp.where(ignored, _IGNORED, own), lse)


def _compute_losses(rows: _Rows, at_target: jax.Array, axis: str, options: LossOptions) -> Losses:
    losses = rows.lse - jax.lax.psum(at_target, axis) + options.z_loss * rows.lse * rows.lse
    losses = jnp.where(rows.targets == _NOWHERE, jnp.nan, losses)
    ignored = rows.targets == _IGNORED
    return Losses(jnp.where(ignored, 0.0, losses), jnp.where(ignored, 0.0, rows.lse))


@triton.jit
def _gradient_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    logits_ptr,
    targets_ptr,
    lse_ptr,
    scale_ptr,
    at_target_ptr,
    destination_ptr,
    VOCABULARY: tl.constexpr,
    IGNORED: tl.constexpr,
    NOWHERE: tl.constexpr,
    SCALE_STRIDE: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    Z_LOSS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if destination_ptr is None:
        destination_ptr = logits_ptr
    logits_ptr += row * VOCABULARY
    destination_ptr += row * VOCABULARY
    target = tl.load(targets_ptr + row)
    if target == IGNORED:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(destination_ptr + column, 0.0, mask=column < VOCABULARY)
        tl.store(at_target_ptr + row, 0.0)
        return
    lse = tl.load(lse_ptr + row)
    scale = tl.where(target == NOWHERE, float("nan"), tl.load(scale_ptr + row * SCALE_STRIDE))
    factor = scale
    if Z_LOSS > 0:
        factor *= 1.0 + 2.0 * Z_LOSS * lse
    found = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = load_logits(logits_ptr + column, column < VOCABULARY, SOFT_CAP, "evict_first")
        gradient = tl.exp2((x - lse) * _LOG2_E) * factor
        gradient -= tl.where(column == target, scale, 0.0)
        if SOFT_CAP > 0:
            gradient *= 1.0 - (x / SOFT_CAP) * (x / SOFT_CAP)
        found += tl.sum(tl.where(column == target, x, 0.0))
        tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY, cache_modifier=".cs")
    tl.store(at_target_ptr + row, found)
