"""Finds the gradient that was wrong on the seed's H100: computes the figures that its authors printed, from a formula.

    uv run python tools/published_figures.py

The README of phlippe/liger_kernels shows the first lines of two failed comparisons. This file computes in float64, on
the arguments of their test, a gradient that reads the logits instead of their gradient. It uses no kernel and no
scheduler: if the figures are the same, their GPU computed that gradient. jax 0.4.34 drew with
`jax_threefry_partitionable` off.
"""

import math
import os
import sys
from typing import NamedTuple

import numpy as np


class Arguments(NamedTuple):
    """input f32[tokens, embedding], targets, mask [tokens], weight f32[embedding, vocabulary], bias f32[vocabulary]."""

    input: np.ndarray
    targets: np.ndarray
    mask: np.ndarray
    weight: np.ndarray
    bias: np.ndarray


def draw_arguments(batch: int, context: int, vocabulary: int, embedding: int) -> Arguments:
    """Returns the arguments that the test draws."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_threefry_partitionable", False)
    key, tokens = jax.random.PRNGKey, (batch, context)
    return Arguments(
        np.asarray(jax.random.normal(key(0), (*tokens, embedding)) / np.sqrt(vocabulary)).reshape(-1, embedding),
        np.asarray(jax.random.randint(key(1), tokens, 0, vocabulary)).reshape(-1),
        np.asarray(jax.random.bernoulli(key(2), 0.5, tokens)).reshape(-1),
        np.asarray(jax.random.normal(key(3), (embedding, vocabulary))),
        np.asarray(jax.random.normal(key(4), (vocabulary,))),
    )


def compute_scale(arguments: Arguments) -> np.ndarray:
    """Returns alpha for each token: its chunk's share of the targets that count."""
    tokens, embedding = arguments.input.shape
    inverse = math.ceil(tokens / math.ceil(arguments.weight.shape[1] / embedding))
    size = 1 << (inverse - 1).bit_length()
    counts = [max(1, arguments.mask[start : start + size].sum()) for start in range(0, tokens, size)]
    return np.repeat(counts, size) / max(1, arguments.mask.sum())


def compute_stale_input_gradient(arguments: Arguments) -> np.ndarray:
    """Returns (alpha logits) weight^T, float64[tokens, embedding]."""
    weight = arguments.weight.astype(np.float64)
    logits = arguments.input @ weight + arguments.bias
    return compute_scale(arguments)[:, None] * logits @ weight.T


def compute_input_gradient(arguments: Arguments) -> np.ndarray:
    """Returns the gradient of the mean cross entropy over the tokens that count, float64[tokens, embedding]."""
    weight = arguments.weight.astype(np.float64)
    logits = arguments.input @ weight + arguments.bias
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    softmax[np.arange(len(softmax)), arguments.targets] -= 1
    return (softmax * arguments.mask[:, None] / arguments.mask.sum()) @ weight.T


def compute_stale_bias_gradient(arguments: Arguments) -> np.ndarray:
    """Returns the sum over tokens of alpha logits, float64[vocabulary], without the logits themselves."""
    scale = compute_scale(arguments)
    return (scale @ arguments.input.astype(np.float64)) @ arguments.weight.astype(
        np.float64
    ) + scale.sum() * arguments.bias


def main() -> None:
    small, large = draw_arguments(1, 4, 32, 16), draw_arguments(4, 2048, 50304, 1024)
    stale, true = compute_stale_input_gradient(small), compute_input_gradient(small)
    bias = compute_stale_bias_gradient(large)
    lines = (
        f"(1, 4, 32, 16), x: {stale[0, :5]}, greatest difference {np.abs(stale - true).max():.5f}",
        "            printed: [5.581061 1.939753 -8.217423 -3.024954 1.263693], 8.978701",
        f"(4, 2048, 50304, 1024), bias: {bias[:3]} {bias[-3:]}, greatest {np.abs(bias).max():.4f}",
        "            printed: [155.37679 -146.15147 338.65143] [24.157772 -141.7925 -174.98781], difference 1113.0697",
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
