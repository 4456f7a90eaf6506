"""Computes the fused loss on a mesh, with the kernel in a `shard_map`: each device calls it on its own tokens, and XLA
gathers nothing into a hidden copy.

The tokens are split over one axis, whatever the parameters are split over. Parameters that are split are gathered whole
on each device, inside of the `shard_map`, before the product with the input: the kernel needs all logits of a row. Each
device's results for its tokens are then summed up: losses and counts by `psum`, gradients of the parameters by
autodiff's transpose of the gathering, a scattered sum. This is data parallelism, also where the parameters are split
over the vocabulary: no device computes a part of a row. With a `vocabulary_axis` each device computes a part of each
row, and nothing is gathered along that axis.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy

type Partition = tuple[str | None, ...]


def fused_linear_cross_entropy_in_shard_map(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    *,
    where: jax.Array,
    axis: str,
    weight_partition: Partition,
    bias_partition: Partition = (),
    vocabulary_axis: str | None = None,
    mode: str = "aliased",
    local_loss: Callable[..., Any] = fused_linear_cross_entropy,
) -> jax.Array:
    """Returns the mean loss, f32[]; differentiable in `input`, `weight` and `bias`.

    Shapes as for `api.fused_linear_cross_entropy`; the first dimension of input, targets and mask is a multiple of the mesh
    axis `axis`. The partitions say, for each dimension, the axis that a parameter is split over, or None. vocabulary_axis:
    the mesh axis along which the parameters are not gathered, see `options.FusedOptions`. local_loss: the loss that each
    device calls, with reduction `sum`; it takes the same arguments.
    """
    tokens = PartitionSpec(axis)
    specs = (tokens, PartitionSpec(*weight_partition), tokens, PartitionSpec(*bias_partition), tokens)
    if vocabulary_axis is not None:
        local_loss = partial(local_loss, vocabulary_axis=vocabulary_axis)
    gathered = tuple(
        tuple(None if name == vocabulary_axis else name for name in partition)
        for partition in (weight_partition, bias_partition)
    )
    local = partial(_compute_local, axis=axis, gathered=gathered, mode=mode, local_loss=local_loss)
    return jax.shard_map(local, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)(
        input, weight, targets, bias, where
    )


def _compute_local(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array,
    *,
    axis: str,
    gathered: tuple[Partition, ...],
    mode: str,
    local_loss: Callable[..., Any],
) -> jax.Array:
    weight = _gather(weight, gathered[0])
    bias = None if bias is None else _gather(bias, gathered[1])
    loss = local_loss(input, weight, targets, bias, where=mask, reduction="sum", mode=mode)
    count = mask.sum().astype(jnp.float32)
    return jax.lax.psum(loss, axis) / jnp.maximum(1, jax.lax.psum(count, axis))


def _gather(shard: jax.Array, partition: Partition) -> jax.Array:
    for dimension, axis in enumerate(partition):
        if axis is not None:
            shard = jax.lax.all_gather(shard, axis, axis=dimension, tiled=True)
    return shard
