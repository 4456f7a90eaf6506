"""Launches the kernels on rows of logits."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import LossOptions
from kernels.cross_entropy.partitioning import partition_by_rows
from kernels.cross_entropy.triton import cross_entropy_forward_kernel, cross_entropy_kernel
from kernels.launches import LaunchConfiguration, find_launch
from kernels.triton_call import inplace_call, read_only_call

_VECTOR_BYTES = 16
"""The widest load of a thread."""


class Losses(NamedTuple):
    """The losses and the logsumexp (`lse`) of the (capped) logits of each row, f32[rows] each; 0 for an ignored row."""

    losses: jax.Array
    lse: jax.Array


class LossesAndGradient(NamedTuple):
    """The fields of `Losses`, and the gradient, which has the shape and dtype of the logits."""

    losses: jax.Array
    lse: jax.Array
    gradient: jax.Array


def launch_forward(logits: jax.Array, targets: jax.Array, options: LossOptions) -> Losses:
    """Returns the losses of the rows; reads the logits once and does not overwrite them.

    logits: float[rows, vocabulary], at least one of each; targets: i32[rows].
    """
    if options.partitioned:
        return Losses(*partition_by_rows(partial(_forward, options), "row column, row -> row, row")(logits, targets))
    return Losses(*_forward(options, logits, targets))


def _forward(options: LossOptions, logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, ...]:
    configuration = find_launch("cross_entropy_forward")
    return read_only_call(
        cross_entropy_forward_kernel,
        logits,
        targets,
        outputs=_declare_outputs(logits),
        grid=logits.shape[:1],
        num_warps=configuration.warps,
        **_make_constants(logits, options, configuration),
    )


def launch_with_gradient(
    logits: jax.Array,
    targets: jax.Array,
    scale: jax.Array,
    options: LossOptions,
    *,
    operation: str = "cross_entropy",
) -> LossesAndGradient:
    """Returns the losses of the rows and `scale` times their gradient.

    logits, targets: as for `launch_forward`; scale: f32[], or f32[rows] with a factor for each row; operation: the
    entry in `launches.toml` with the launch configuration.
    """
    if options.partitioned:
        call = partition_by_rows(
            partial(_with_gradient, options, operation), "row column, row, row -> row, row, row column"
        )
        return LossesAndGradient(*call(logits, targets, jnp.broadcast_to(scale, targets.shape)))
    return LossesAndGradient(*_with_gradient(options, operation, logits, targets, scale))


def _with_gradient(
    options: LossOptions, operation: str, logits: jax.Array, targets: jax.Array, scale: jax.Array
) -> tuple[jax.Array, ...]:
    configuration = find_launch(operation)
    (losses, lse), gradient = inplace_call(
        cross_entropy_kernel,
        logits,
        targets,
        scale,
        written=0,
        outputs=_declare_outputs(logits),
        grid=logits.shape[:1],
        mode=options.mode,
        num_warps=configuration.warps,
        SCALE_STRIDE=scale.ndim,
        **_make_constants(logits, options, configuration),
    )
    return losses, lse, gradient


def _declare_outputs(logits: jax.Array) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    row = jax.ShapeDtypeStruct(logits.shape[:1], jnp.float32)
    return row, row


def _make_constants(logits: jax.Array, options: LossOptions, configuration: LaunchConfiguration) -> dict[str, Any]:
    vocabulary = logits.shape[1]
    block = configuration.compute_block(vocabulary, logits.dtype.itemsize)
    return {
        "VOCABULARY": vocabulary,
        "IGNORE_INDEX": options.ignore_index,
        "SMOOTHING": float(options.label_smoothing),
        "SOFT_CAP": float(options.logit_soft_cap or 0.0),
        "Z_LOSS": float(options.z_loss),
        "BLOCK": block,
        "LANES": min(block, _VECTOR_BYTES // logits.dtype.itemsize),
    }
