"""The kernels as a model calls them: all in one mode, or in plain jnp; and what models have in common."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kernels.cross_entropy import api as cross_entropy
from kernels.cross_entropy import reference as plain_cross_entropy
from kernels.fused_linear_cross_entropy import api as fused_linear_cross_entropy
from kernels.fused_linear_cross_entropy import reference as plain_fused_linear_cross_entropy
from kernels.geglu import api as geglu
from kernels.geglu import reference as plain_geglu
from kernels.jsd import api as jsd
from kernels.jsd import reference as plain_jsd
from kernels.kl_div import api as kl_div
from kernels.kl_div import reference as plain_kl_div
from kernels.layer_norm import api as layer_norm
from kernels.layer_norm import reference as plain_layer_norm
from kernels.modes import Mode
from kernels.rms_norm import api as rms_norm
from kernels.rms_norm import reference as plain_rms_norm
from kernels.rope import api as rope
from kernels.rope import reference as plain_rope
from kernels.swiglu import api as swiglu
from kernels.swiglu import reference as plain_swiglu
from ligerdiag.model.case import Arg, Draw

BATCH, TOKENS, WIDTH, HEADS, VOCABULARY, HIDDEN = 2, 16, 32, 4, 64, 48
ROWS = BATCH * TOKENS

type Weights = dict[str, Any]
type Model = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Fused:
    """The operations; mode: None for plain jnp."""

    mode: Mode | None

    def _choose(self, kernel: Any, plain: Any) -> Any:
        return plain if self.mode is None else partial(kernel, mode=self.mode)

    @property
    def loss(self) -> Any:
        return self._choose(cross_entropy.cross_entropy, plain_cross_entropy.cross_entropy)

    @property
    def linear_loss(self) -> Any:
        kernel = fused_linear_cross_entropy.fused_linear_cross_entropy
        return self._choose(kernel, plain_fused_linear_cross_entropy.fused_linear_cross_entropy)

    @property
    def rms_norm(self) -> Any:
        return self._choose(rms_norm.rms_norm, plain_rms_norm.rms_norm)

    @property
    def layer_norm(self) -> Any:
        return self._choose(layer_norm.layer_norm, plain_layer_norm.layer_norm)

    @property
    def swiglu(self) -> Any:
        return self._choose(swiglu.swiglu, plain_swiglu.swiglu)

    @property
    def geglu(self) -> Any:
        return self._choose(geglu.geglu, plain_geglu.geglu)

    @property
    def rope(self) -> Any:
        return self._choose(rope.rope, plain_rope.rope)

    @property
    def kl_div(self) -> Any:
        return self._choose(kl_div.kl_div, plain_kl_div.kl_div)

    @property
    def jsd(self) -> Any:
        return self._choose(jsd.jsd, plain_jsd.jsd)


def attend(fused: Fused, x: Any, weights: Weights, *, is_turned: bool = False, is_normed: bool = False) -> Any:
    """Returns causal attention of `x`, float[batch, tokens, WIDTH], by heads; optionally with rotary embedding, and with
    normed queries and keys."""
    batch, tokens, width = x.shape
    queries, keys, values = (jnp.reshape(x @ weights[name], (batch, tokens, HEADS, -1)) for name in "qkv")
    if is_normed:
        queries, keys = fused.rms_norm(queries, weights["q_norm"]), fused.rms_norm(keys, weights["k_norm"])
    if is_turned:
        queries, keys = fused.rope(queries, keys, *plain_rope.compute_angles(tokens, width // HEADS))
    scores = jnp.einsum("bthd,bshd->bhts", queries, keys) / math.sqrt(width // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), values)
    return mixed.reshape(batch, tokens, width) @ weights["o"]


def name_leaves(tree: Any, prefix: str = "d") -> dict[str, Any]:
    """Returns the leaves of a tree of dicts by their keys, such as `d_layers_q`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"_".join([prefix, *[str(getattr(key, "key", key)) for key in path]]): leaf for path, leaf in leaves}


class Arguments:
    """Arguments of models, each with a seed of its own."""

    def __init__(self) -> None:
        self._seeds: Iterator[int] = iter(range(10_000))

    def matrix(self, *shape: int) -> Arg:
        """Returns one whose product has the scale of what it is multiplied by."""
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
