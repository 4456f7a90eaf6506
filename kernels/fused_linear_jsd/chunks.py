"""Computes loss and gradients, one chunk of tokens after another, so that only the logits of one chunk exist at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from kernels.kl_div.options import DivergenceOptions
from kernels.kl_div.triton import launch

type Linear = tuple[jax.Array, jax.Array]
"""An input, float[tokens, hidden], and its weight, float[hidden, vocabulary], of one dtype."""


class LossAndGradients(NamedTuple):
    """The loss, f32[], and the gradients of the student's input and weight, in the dtype of the input."""

    loss: jax.Array
    input: jax.Array
    weight: jax.Array


def compute_chunk_size(tokens: int, vocabulary: int, bytes_each: int, budget: int) -> int:
    """Returns the number of tokens in a chunk, so that the chunk's logits fit into `budget` bytes; at least 1, at most
    `tokens`.

    If 128 tokens or more fit, the number is a multiple of 128, the side of a matrix product's tile. bytes_each: bytes of a
    token's logits for one entry of the vocabulary.
    """
    fitting = max(1, budget // (vocabulary * bytes_each))
    return min(tokens, fitting // 128 * 128 if fitting >= 128 else fitting)


def compute_loss(
    student: Linear,
    teacher: Linear,
    weights: jax.Array,
    options: DivergenceOptions,
    *,
    beta: float,
    chunk: int,
) -> jax.Array:
    """Returns the loss of `reference.fused_linear_jsd`, f32[], without gradients."""

    def step(total: jax.Array, arrays: tuple[jax.Array, ...]) -> tuple[jax.Array, tuple[()]]:
        x, y, weight = arrays
        losses, _ = launch(x @ student[1], y @ teacher[1], weight, options, beta, gradient=False)
        return total + losses.sum(), ()

    return _scan(step, jnp.float32(0), (student[0], teacher[0], weights), chunk)[0]


def compute_loss_and_gradients(
    student: Linear,
    teacher: Linear,
    weights: jax.Array,
    options: DivergenceOptions,
    *,
    beta: float,
    chunk: int,
    accumulate: jnp.dtype,
) -> LossAndGradients:
    """Returns loss and gradients of `reference.fused_linear_jsd`.

    weights: f32[tokens], the weight of each token's loss; chunk: number of tokens of a chunk; accumulate: the dtype in
    which the weight's gradient is summed up over the chunks.
    """
    dtype = student[0].dtype

    def step(carry: Linear, arrays: tuple[jax.Array, ...]) -> tuple[Linear, jax.Array]:
        total, grad_weight = carry
        x, y, weight = arrays
        losses, gradient = launch(x @ student[1], y @ teacher[1], weight, options, beta)
        product = jnp.einsum("th,tv->hv", x, gradient, preferred_element_type=accumulate)
        return (total + losses.sum(), grad_weight + product), jnp.einsum("tv,hv->th", gradient, student[1])

    carry = (jnp.float32(0), jnp.zeros(student[1].shape, accumulate))
    (loss, grad_weight), grad_input = _scan(step, carry, (student[0], teacher[0], weights), chunk)
    return LossAndGradients(loss, grad_input, grad_weight.astype(dtype))


def _scan(step, carry, arrays: tuple[jax.Array, ...], chunk: int):
    """Scans over chunks of tokens, the last of which may be smaller; returns carry and what the steps stack, joined."""
    tokens = arrays[0].shape[0]
    chunks, rest = divmod(tokens, chunk)
    stacked = []
    if chunks:
        full = tuple(array[: chunks * chunk].reshape(chunks, chunk, *array.shape[1:]) for array in arrays)
        carry, found = jax.lax.scan(step, carry, full)
        stacked.append(jax.tree.map(lambda array: array.reshape(chunks * chunk, *array.shape[2:]), found))
    if rest:
        carry, found = step(carry, tuple(array[-rest:] for array in arrays))
        stacked.append(found)
    return carry, jax.tree.map(lambda *parts: parts[0] if len(parts) == 1 else jnp.concatenate(parts), *stacked)
