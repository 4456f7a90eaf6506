"""Defines the sizes of a Llama, and the shapes and dimensions of its parameters. Imports no framework."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from kernels.modes import Mode

type Tree[T] = dict[str, T | dict[str, T]]
"""Of the parameters: `layers` holds those of all layers, stacked; the others are no layer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """The sizes of a Llama 3 (arXiv 2407.21783, table 3). Each head and each key head has `head_size` elements.

    context: tokens of a training sequence. tied: whether the embedding also serves as the head. unrolled: whether the layers
    are written out one by one, and not a `scan`.
    """

    vocabulary: int
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    context: int
    tied: bool = False
    rope_base: float = 500_000.0
    unrolled: bool = False


CONFIGS = {
    "tiny": LlamaConfig(vocabulary=64, width=32, inner=64, layers=2, heads=4, key_heads=2, head_size=8, context=16),
    "1M": LlamaConfig(
        vocabulary=1024, width=128, inner=352, layers=4, heads=4, key_heads=2, head_size=32, context=128, tied=True
    ),
    "100M": LlamaConfig(
        vocabulary=32768, width=768, inner=2048, layers=12, heads=12, key_heads=4, head_size=64, context=1024, tied=True
    ),
    "1B": LlamaConfig(
        vocabulary=128256,
        width=2048,
        inner=8192,
        layers=16,
        heads=32,
        key_heads=8,
        head_size=64,
        context=4096,
        tied=True,
    ),
    "8B": LlamaConfig(
        vocabulary=128256, width=4096, inner=14336, layers=32, heads=32, key_heads=8, head_size=128, context=8192
    ),
    "70B": LlamaConfig(
        vocabulary=128256, width=8192, inner=28672, layers=80, heads=64, key_heads=8, head_size=128, context=8192
    ),
}
"""Configurations by name; those from 1B upwards are sizes of Llama 3."""


class Logits(StrEnum):
    """The form in which a model passes the logits to the kernel that overwrites them."""

    CHUNKED = "chunked"
    """The logits of some tokens at a time, in bf16, by `kernels.fused_linear_cross_entropy`."""

    SEED = "seed"
    """The logits of some tokens at a time, in f32 and a `scan`, as the project's seed computes them, by
    `kernels.seed_flce`.
    """

    WHOLE = "whole"
    """The logits of all tokens, in f32, by `kernels.cross_entropy`."""

    PARTITIONED = "partitioned"
    """As WHOLE, with a `custom_partitioning`: each device calls the kernel on its own tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The kernels that a model calls, each with the mode in which it overwrites its operand; None means plain JAX.

    per_device: true if each device calls the kernels on its own part of the arrays, in a `shard_map`; false if the kernels
        are called on whole arrays, which XLA's partitioner splits or gathers.
    logits: the form of the logits; used only if `loss` is a mode and `per_device` is false.
    """

    loss: Mode | None = None
    norm: Mode | None = None
    rope: Mode | None = None
    gate: Mode | None = None
    per_device: bool = False
    logits: Logits = Logits.WHOLE


class Parameter(NamedTuple):
    """The shape of a parameter, the name of each dimension, and the standard deviation of its initial values."""

    shape: tuple[int, ...]
    dimensions: tuple[str, ...]
    deviation: float
    """Standard deviation of the initial values; 0 if all initial values are 1."""


def list_parameters(config: LlamaConfig) -> Tree[Parameter]:
    """Returns the parameters. The parameters of layers have `layers` as their first dimension."""
    sizes = {
        "layers": config.layers,
        "vocabulary": config.vocabulary,
        "width": config.width,
        "inner": config.inner,
        "heads": config.heads * config.head_size,
        "key_heads": config.key_heads * config.head_size,
    }

    def make(*dimensions: str, deviation: float = 0.02) -> Parameter:
        return Parameter(tuple(sizes[name] for name in dimensions), dimensions, deviation)

    residual = 0.02 * (2 * config.layers) ** -0.5
    tree: Tree[Parameter] = {
        "embedding": make("vocabulary", "width"),
        "layers": {
            "attention_norm": make("layers", "width", deviation=0),
            "query": make("layers", "width", "heads"),
            "key": make("layers", "width", "key_heads"),
            "value": make("layers", "width", "key_heads"),
            "output": make("layers", "heads", "width", deviation=residual),
            "mlp_norm": make("layers", "width", deviation=0),
            "gate": make("layers", "width", "inner"),
            "up": make("layers", "width", "inner"),
            "down": make("layers", "inner", "width", deviation=residual),
        },
        "norm": make("width", deviation=0),
    }
    if not config.tied:
        tree["head"] = make("width", "vocabulary")
    return tree


def map_tree(function: Callable[..., Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tree with each leaf replaced by `function(leaf)`."""
    return {
        name: map_tree(function, leaf) if isinstance(leaf, Mapping) else function(leaf) for name, leaf in tree.items()
    }


def count_parameters(config: LlamaConfig) -> int:
    """Returns the number of elements of all parameters."""
    total = 0

    def add(parameter: Parameter) -> None:
        nonlocal total
        size = 1
        for one in parameter.shape:
            size *= one
        total += size

    map_tree(add, list_parameters(config))
    return total
