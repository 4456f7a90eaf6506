"""Computes the weight of each row's loss, and combines the losses of the rows."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import Reduction


def flatten_pair(student_logits: jax.Array, teacher_logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns both arrays of logits in the shape [rows, vocabulary]. Raises ValueError if their shapes differ, or if the
    vocabulary is empty.
    """
    if student_logits.shape != teacher_logits.shape or not student_logits.shape[-1:] > (0,):
        raise ValueError(
            "Expected student and teacher logits of one shape (..., vocabulary) "
            f"but got {student_logits.shape=} {teacher_logits.shape=}"
        )
    vocabulary = student_logits.shape[-1]
    return student_logits.reshape(-1, vocabulary), teacher_logits.reshape(-1, vocabulary)


def compute_row_weights(tokens: tuple[int, ...], where: jax.Array | None, reduction: Reduction) -> jax.Array:
    """Returns f32[rows]: 0 for a row that does not count, else 1, or for `mean` 1 / the number of rows that count.

    where: bool[*tokens], false for a row that does not count. Raises ValueError for another shape.
    """
    if where is not None and where.shape != tokens:
        raise ValueError(f"Expected `where` in the shape {tokens} of the rows but got {where.shape=}")
    kept = jnp.ones(tokens, jnp.float32) if where is None else where.astype(jnp.float32)
    kept = kept.reshape(-1)
    return kept / jnp.maximum(1.0, kept.sum()) if reduction is Reduction.MEAN else kept


def reduce_losses(losses: jax.Array, tokens: tuple[int, ...], reduction: Reduction) -> jax.Array:
    """Returns the loss: the sum of the weighted losses of all rows, or, for the reduction `none`, the losses in the shape of
    `tokens`.
    """
    return losses.reshape(tokens) if reduction is Reduction.NONE else losses.sum()


def scale_gradient(gradient: jax.Array, cotangent: jax.Array) -> jax.Array:
    """Returns the gradient, float[rows, vocabulary], times the cotangent of the rows, f32[rows], in the gradient's dtype."""
    return (cotangent[:, None] * gradient).astype(gradient.dtype)
