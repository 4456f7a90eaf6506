"""Computes loss and gradients, one chunk of tokens after another; only one chunk's logits exist at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import triton

from kernels.cross_entropy.options import LossOptions, Reduction
from kernels.seed_flce.triton import launch


class LossAndGradients(NamedTuple):
    """The loss, f32[], and the gradients of input, weight and bias, each in the shape and dtype of its array. Without a
    bias, the bias's gradient is None.
    """

    loss: jax.Array
    input: jax.Array
    weight: jax.Array
    bias: jax.Array | None


type Gradients = tuple[jax.Array, jax.Array | None]


def compute_chunk_size(tokens: int, vocabulary: int, embedding: int) -> int:
    """Returns the number of tokens in a chunk: a power of two, so that the chunk's logits, [chunk, vocabulary], are about as
    large as the whole input, [tokens, embedding].
    """
    return triton.next_power_of_2(triton.cdiv(tokens, triton.cdiv(vocabulary, embedding)))


def compute_loss_and_gradients(
    input: jax.Array, weight: jax.Array, targets: jax.Array, bias: jax.Array | None, options: LossOptions
) -> LossAndGradients:
    """Returns loss and gradients of `reference.fused_linear_cross_entropy`, computed in the input's dtype.

    input: float[tokens, embedding]; weight: float[embedding, vocabulary]; targets: i32[tokens];
    bias: float[vocabulary] or None. The gradients of weight and bias are summed up in the input's dtype. The order of
    the operations after the kernel is what the modes `hidden` and `trivial` demonstrate: keep it.
    """
    tokens, embedding = input.shape
    dtype = input.dtype
    cast_weight = weight.astype(dtype)
    cast_bias = None if bias is None else bias.astype(dtype)
    total_count = _count(targets, options)

    def step(carry: Gradients, chunk: tuple[jax.Array, jax.Array]) -> tuple[Gradients, tuple[jax.Array, jax.Array]]:
        grad_weight, grad_bias = carry
        x, y = chunk
        logits = x @ cast_weight
        if cast_bias is not None:
            logits = logits + cast_bias
        count = _count(y, options)
        losses, logits = launch(logits.astype(jnp.float32), y, count, options)
        logits = logits.astype(dtype)
        alpha = count / total_count if options.reduction is Reduction.MEAN else jnp.float32(1)
        cast_alpha = alpha.astype(dtype)
        grad_input = (logits * cast_alpha) @ cast_weight.T
        grad_weight = grad_weight + cast_alpha * (x.T @ logits)
        if grad_bias is not None:
            grad_bias = grad_bias + cast_alpha * logits.sum(0)
        return (grad_weight, grad_bias), (losses * alpha, grad_input)

    carry: Gradients = (jnp.zeros_like(cast_weight), None if cast_bias is None else jnp.zeros_like(cast_bias))
    size = compute_chunk_size(tokens, weight.shape[1], embedding)
    chunks, rest = divmod(tokens, size)
    losses: list[jax.Array] = []
    grad_inputs: list[jax.Array] = []
    if chunks:
        full = (input[: chunks * size].reshape(chunks, size, embedding), targets[: chunks * size].reshape(chunks, size))
        carry, (loss, grad_input) = jax.lax.scan(step, carry, full)
        losses.append(loss.sum())
        grad_inputs.append(grad_input.reshape(chunks * size, embedding))
    if rest:
        carry, (loss, grad_input) = step(carry, (input[-rest:], targets[-rest:]))
        losses.append(loss.sum())
        grad_inputs.append(grad_input)

    grad_weight, grad_bias = carry
    return LossAndGradients(
        sum(losses[1:], losses[0]),
        grad_inputs[0] if len(grad_inputs) == 1 else jnp.concatenate(grad_inputs),
        grad_weight.astype(weight.dtype),
        None if bias is None else grad_bias.astype(bias.dtype),
    )


def _count(targets: jax.Array, options: LossOptions) -> jax.Array:
    return jnp.maximum(1, (targets != options.ignore_index).sum()).astype(jnp.float32)
