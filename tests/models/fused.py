"""The kernels as a model calls them, all in one mode or in plain jnp; and the parts that models share."""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from kernels.modes import Mode
from kernels.rope.reference import compute_angles
from ligerdiag.model.case import Arg, Draw

BATCH, TOKENS, WIDTH, HEADS, VOCABULARY, HIDDEN = 2, 16, 32, 4, 64, 48
ROWS = BATCH * TOKENS

type Weights = dict[str, Any]
type Model = Callable[..., dict[str, Any]]


type Fused = Any
"""The kernels by their names, as `fuse` returns them."""
KERNELS = (
    "cross_entropy",
    "fused_linear_cross_entropy",
    "rms_norm",
    "layer_norm",
    "swiglu",
    "geglu",
    "rope",
    "kl_div",
    "jsd",
)


def fuse(mode: Mode | None) -> Fused:
    """Returns the kernels in this mode, or their plain jnp versions."""
    if mode is None:
        return SimpleNamespace(**{name: _find(name, "reference") for name in KERNELS})
    return SimpleNamespace(**{name: partial(_find(name, "api"), mode=mode) for name in KERNELS})


def _find(name: str, room: str) -> Callable[..., Any]:
    return getattr(importlib.import_module(f"kernels.{name}.{room}"), name)


def attend(fused: Fused, x: Any, weights: Weights, *, is_turned: bool = False, is_normed: bool = False) -> Any:
    """Returns causal attention of `x`, float[batch, tokens, WIDTH], by heads; optionally with rotary embedding, and with
    normed queries and keys."""
    batch, tokens, width = x.shape
    queries, keys, values = (jnp.reshape(x @ weights[name], (batch, tokens, HEADS, -1)) for name in "qkv")
    if is_normed:
        queries, keys = fused.rms_norm(queries, weights["q_norm"]), fused.rms_norm(keys, weights["k_norm"])
    if is_turned:
        queries, keys = fused.rope(queries, keys, *compute_angles(tokens, width // HEADS))
    scores = jnp.einsum("bthd,bshd->bhts", queries, keys) / math.sqrt(width // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), values)
    return mixed.reshape(batch, tokens, width) @ weights["o"]


def name_leaves(tree: Any, prefix: str = "d") -> dict[str, Any]:
    """Returns the leaves of a tree of dicts by their keys, such as `d_layers_q`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"_".join([prefix, *[str(getattr(key, "key", key)) for key in path]]): leaf for path, leaf in leaves}


class Arguments:
    """Arguments of models, each with its own seed."""

    def __init__(self) -> None:
        self._seeds: Iterator[int] = iter(range(10_000))

    def matrix(self, *shape: int) -> Arg:
        """Returns a matrix whose product keeps the scale of the other factor."""
        return Arg(shape=shape, draw=Draw(seed=next(self._seeds), scale=1 / math.sqrt(shape[-2])))

    def normal(self, *shape: int, scale: float = 1.0) -> Arg:
        return Arg(shape=shape, draw=Draw(seed=next(self._seeds), scale=scale))

    def integers(self, *shape: int, high: int = VOCABULARY) -> Arg:
        return Arg(shape=shape, dtype="int32", draw=Draw(kind="randint", seed=next(self._seeds), low=0, high=high))

    def uniform(self, *shape: int) -> Arg:
        return Arg(shape=shape, draw=Draw(kind="uniform", seed=next(self._seeds)))

    def layer(self, *count: int) -> Mapping[str, Arg]:
        """Returns the weights of a layer, or of a stack of them."""
        square = {name: self.matrix(*count, WIDTH, WIDTH) for name in "qkvo"}
        scales = {name: self.normal(*count, WIDTH) for name in ("scale_1", "shift_1", "scale_2", "shift_2")}
        up = {name: self.matrix(*count, WIDTH, HIDDEN) for name in ("gate", "up")}
        return {**square, **scales, **up, "down": self.matrix(*count, HIDDEN, WIDTH)}
