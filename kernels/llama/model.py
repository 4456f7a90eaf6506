"""Implements the model, in bf16: from token ids to the hidden states, from which the head computes logits.

Each layer is recomputed in the backward pass except the values that `jax.checkpoint` saves: the residual stream between
layers.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from kernels.llama.config import Fused, LlamaConfig
from kernels.llama.layout import Layout, Partition
from kernels.modes import Mode
from kernels.rms_norm import api as fused_norm
from kernels.rms_norm import reference as plain_norm
from kernels.rope import api as fused_rope
from kernels.rope import reference as plain_rope
from kernels.swiglu import api as fused_gate
from kernels.swiglu import reference as plain_gate

EPSILON = 1e-5

type Weights = dict[str, Any]


def compute_hidden(
    weights: Weights, tokens: jax.Array, *, config: LlamaConfig, layout: Layout, fused: Fused
) -> jax.Array:
    """Returns the normalized hidden states, bf16[batch, context, width].

    weights: bf16, as `config.list_parameters` names them; tokens: i32[batch, context]. Runs under the mesh of the context.
    """
    angles = plain_rope.compute_angles(tokens.shape[1], config.head_size, base=config.rope_base)

    @jax.checkpoint
    def layer(x: jax.Array, own: Weights) -> tuple[jax.Array, None]:
        x = _constrain(x, layout.hidden)
        x += _attend(_normalize(x, own["attention_norm"], layout, fused), own, angles, config, layout, fused)
        x = _constrain(x, layout.hidden)
        x += _apply_mlp(_normalize(x, own["mlp_norm"], layout, fused), own, layout, fused)
        return x, None

    x = weights["embedding"][tokens]
    if config.unrolled:
        for number in range(config.layers):
            x, _ = layer(x, {name: stacked[number] for name, stacked in weights["layers"].items()})
    else:
        x, _ = jax.lax.scan(layer, x, weights["layers"])
    return _normalize(_constrain(x, layout.hidden), weights["norm"], layout, fused)


def _attend(  # noqa: PLR0917
    x: jax.Array,
    own: Weights,
    angles: tuple[jax.Array, jax.Array],
    config: LlamaConfig,
    layout: Layout,
    fused: Fused,
) -> jax.Array:
    """Grouped-query attention, each token to those before it (Ainslie et al., arXiv 2305.13245)."""

    def project(name: str) -> jax.Array:
        return _constrain((x @ own[name]).reshape(*x.shape[:2], -1, config.head_size), layout.inside)

    queries, keys = _turn(project("query"), project("key"), angles, layout, fused)
    mixed = jax.nn.dot_product_attention(queries, keys, project("value"), is_causal=True, implementation="xla")
    return mixed.reshape(*x.shape[:2], -1) @ own["output"]


def _apply_mlp(x: jax.Array, own: Weights, layout: Layout, fused: Fused) -> jax.Array:
    gate, up = (_constrain(x @ own[name], layout.inside) for name in ("gate", "up"))
    if fused.gate is None:
        return plain_gate.swiglu(gate, up) @ own["down"]
    call = _bind(fused_gate.swiglu, fused, fused.gate, (layout.inside, layout.inside), layout.inside)
    return call(gate, up) @ own["down"]


def _normalize(x: jax.Array, scale: jax.Array, layout: Layout, fused: Fused) -> jax.Array:
    if fused.norm is None:
        return plain_norm.rms_norm(x, scale, epsilon=EPSILON)

    def normalize(x: jax.Array, scale: jax.Array, mode: Mode) -> jax.Array:
        return fused_norm.rms_norm(x, scale, epsilon=EPSILON, mode=mode)

    return _bind(normalize, fused, fused.norm, (layout.hidden, ()), layout.hidden)(x, scale)


def _turn(
    queries: jax.Array, keys: jax.Array, angles: tuple[jax.Array, jax.Array], layout: Layout, fused: Fused
) -> tuple[jax.Array, jax.Array]:
    if fused.rope is None:
        return plain_rope.rope(queries, keys, *angles)
    both = (layout.inside, layout.inside)
    return _bind(fused_rope.rope, fused, fused.rope, (*both, (), ()), both)(queries, keys, *angles)


def _bind(
    function: Callable[..., Any], fused: Fused, mode: Mode, inputs: tuple[Partition, ...], outputs: Any
) -> Callable[..., Any]:
    """Returns the function in this mode, in a `shard_map` where each device is to call the kernel by itself."""

    def call(*arrays: jax.Array) -> Any:
        return function(*arrays, mode=mode)

    if not fused.per_device:
        return call
    several = bool(outputs) and isinstance(outputs[0], tuple)
    specs = tuple(PartitionSpec(*one) for one in outputs) if several else PartitionSpec(*outputs)
    return jax.shard_map(call, in_specs=tuple(PartitionSpec(*one) for one in inputs), out_specs=specs, check_vma=False)


def _constrain(x: jax.Array, partition: Partition) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*partition))
