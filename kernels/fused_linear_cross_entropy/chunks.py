"""Computes losses and gradients, one chunk of tokens after another, so that only the logits of one chunk exist at a time.

- Chunks are about equal; their sizes are multiples of 256 if possible, because matrix products of such sizes run best.
- The first chunk starts the sum of the weight's gradient. The other chunks are iterations of a loop. In a loop, XLA makes
  `carry + x.T @ g` one cuBLAS product that adds to the carry in place. The logits of one chunk are freed before those of the
  next chunk are computed. Outside of a loop the product and the sum are two operations, with one more array as large as the
  weight. With two chunks, the loop has one iteration, and XLA would unroll it; `_KEEP_LOOP` forbids that.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from kernels.cross_entropy.launch import Losses, LossesAndGradient, launch_forward, launch_with_gradient
from kernels.fused_linear_cross_entropy.options import Accumulate, FusedOptions
from kernels.fused_linear_cross_entropy.vocabulary_parts import launch_part, launch_part_with_gradient

_TILE = 256
"""Number of tokens; the size of a chunk is a multiple of it if possible."""
_KEEP_LOOP = {"skip-simplify-while-loops_trip-count-one": "true"}
"""An attribute of a `while` with which XLA's `while_loop_simplifier` does not unroll a loop of one iteration."""


class Parameters(NamedTuple):
    """The weight, float[embedding, vocabulary], and the bias, float[vocabulary] or None, in the dtype of the input."""

    weight: jax.Array
    bias: jax.Array | None


class Sums(NamedTuple):
    """The gradients of weight and bias, summed over the chunks so far: the weight's in the dtype that `Accumulate` chooses,
    the bias's in f32.
    """

    weight: jax.Array
    bias: jax.Array | None


class Results(NamedTuple):
    """The losses and logsumexps (`lse`), f32[tokens], and the gradient of the input, zeros for chunks not computed yet."""

    losses: jax.Array
    lse: jax.Array
    input: jax.Array
    sums: Sums | None


class Chunks(NamedTuple):
    """The number of tokens in the first chunk (`first`), and in each of the `count` chunks after it (`size`)."""

    first: int
    size: int
    count: int


def split_tokens(tokens: int, most: int) -> Chunks:
    """Returns chunks of at most `most` tokens. All but the first have one size; the first has the remaining tokens."""
    if tokens <= most:
        return Chunks(tokens, 0, 0)
    tile = _TILE if most >= _TILE else 1
    parts = math.ceil(tokens / (most - most % tile))
    size = math.ceil(tokens / parts / tile) * tile
    count = math.ceil(tokens / size) - 1
    return Chunks(tokens - count * size, size, count)


def compute_losses(
    input: jax.Array, parameters: Parameters, targets: jax.Array, options: FusedOptions
) -> tuple[jax.Array, jax.Array]:
    """Returns losses and logsumexp, f32[tokens] each; computes no gradient.

    input: float[tokens, embedding], at least one token; targets: i32[tokens].
    """
    chunks = _split(input, parameters, options)

    def step(done: Losses, start: jax.Array | int, length: int) -> Losses:
        x, y = _take(input, start, length), _take(targets, start, length)
        return Losses(*map(_put, done, _launch(_compute_logits(x, parameters), y, options), (start, start)))

    row = jnp.zeros(targets.shape, jnp.float32)
    return _run(step, Losses(row, row), chunks)


def compute_losses_and_gradients(
    input: jax.Array, parameters: Parameters, targets: jax.Array, scale: jax.Array, options: FusedOptions
) -> Results:
    """Returns the losses, and `scale` times the gradients of their sum. If `scale` is f32[tokens], each token has its own
    factor.
    """
    chunks = _split(input, parameters, options)

    def step(done: Results, start: jax.Array | int, length: int) -> Results:
        x, y = _take(input, start, length), _take(targets, start, length)
        row_scale = _take(scale, start, length) if scale.ndim else scale
        losses, lse, gradient = _launch_with_gradient(_compute_logits(x, parameters), y, row_scale, options)
        return Results(
            _put(done.losses, losses, start),
            _put(done.lse, lse, start),
            _put(done.input, jnp.einsum("tv,hv->th", gradient, parameters.weight), start),
            _add(done.sums, x, gradient, parameters, options),
        )

    row = jnp.zeros(targets.shape, jnp.float32)
    return _run(step, Results(row, row, jnp.zeros_like(input), None), chunks)


def _run[T](step: Callable[[T, jax.Array | int, int], T], nothing: T, chunks: Chunks) -> T:
    """Returns `nothing` after a step for each chunk, from the token it starts at and for the tokens it has."""
    done = step(nothing, 0, chunks.first)
    if not chunks.count:
        return done
    done = jax.lax.fori_loop(
        0, chunks.count, lambda i, done: step(done, chunks.first + i * chunks.size, chunks.size), done
    )
    return set_xla_metadata(done, **_KEEP_LOOP)


def _take(array: jax.Array, start: jax.Array | int, length: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(array, start, length)


def _put(array: jax.Array, part: jax.Array, start: jax.Array | int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(array, part, start, 0)


def _add(sums: Sums | None, x: jax.Array, gradient: jax.Array, parameters: Parameters, options: FusedOptions) -> Sums:
    dtype = jnp.float32 if options.accumulate is Accumulate.F32 else x.dtype
    weight = jnp.einsum("th,tv->hv", x, gradient, preferred_element_type=dtype)
    bias = None if parameters.bias is None else gradient.sum(0, dtype=jnp.float32)
    if sums is None:
        return Sums(weight, bias)
    return Sums(sums.weight + weight, None if bias is None else sums.bias + bias)


def _compute_logits(x: jax.Array, parameters: Parameters) -> jax.Array:
    logits = x @ parameters.weight
    return logits if parameters.bias is None else logits + parameters.bias


def _launch(logits: jax.Array, targets: jax.Array, options: FusedOptions) -> Losses:
    if options.vocabulary_axis is None:
        return launch_forward(logits, targets, options.loss)
    return launch_part(logits, targets, options.vocabulary_axis, options.loss)


def _launch_with_gradient(
    logits: jax.Array, targets: jax.Array, scale: jax.Array, options: FusedOptions
) -> LossesAndGradient:
    if options.vocabulary_axis is None:
        return launch_with_gradient(logits, targets, scale, options.loss, operation="cross_entropy_between_products")
    return launch_part_with_gradient(logits, targets, scale, options.vocabulary_axis, options.loss)


def _split(input: jax.Array, parameters: Parameters, options: FusedOptions) -> Chunks:
    row_bytes = parameters.weight.shape[1] * input.dtype.itemsize
    return split_tokens(len(input), max(1, options.logits_bytes // row_bytes))
