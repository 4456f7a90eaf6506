"""A train step: loss, gradients, clipping, AdamW, on f32 masters of bf16 weights. Its state should be donated."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec

from kernels.cross_entropy.api import cross_entropy
from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy
from kernels.fused_linear_cross_entropy.in_shard_map import fused_linear_cross_entropy_in_shard_map
from kernels.llama.config import Fused, LlamaConfig, Logits, list_parameters
from kernels.llama.layout import DATA, Layout
from kernels.llama.model import compute_hidden
from kernels.seed_flce import api as seed_flce

CLIP = 1.0
OPTIMIZER = optax.adamw(3e-4, b1=0.9, b2=0.95, weight_decay=0.1)

type State = dict[str, Any]
"""`params`, `mu` and `nu`, f32 trees as of `config.list_parameters`, and `count`, i32[], the steps so far."""


def train_step(
    state: State, tokens: jax.Array, targets: jax.Array, *, config: LlamaConfig, layout: Layout, fused: Fused
) -> dict[str, Any]:
    """Returns `loss` and `norm` of the gradient, f32[], and the next `state`.

    tokens, targets: i32[batch, context]. Runs under the mesh of the context, which has the axes of `layout`.
    """

    found = compute_gradients(state["params"], tokens, targets, config=config, layout=layout, fused=fused)
    loss, norm = found["loss"], found["norm"]
    gradients = jax.tree.map(lambda one: one * jnp.minimum(1.0, CLIP / norm), found["gradients"])
    moments = {name: state[name] for name in ("count", "mu", "nu")}
    before = optax.tree_utils.tree_set(OPTIMIZER.init(state["params"]), **moments)
    updates, after = OPTIMIZER.update(gradients, before, state["params"])
    moments = {name: optax.tree_utils.tree_get(after, name) for name in moments}
    return {"loss": loss, "norm": norm, "state": {"params": optax.apply_updates(state["params"], updates), **moments}}


def compute_gradients(
    params: Any, tokens: jax.Array, targets: jax.Array, *, config: LlamaConfig, layout: Layout, fused: Fused
) -> dict[str, Any]:
    """Returns `loss`, the `gradients` in the shape of `params`, and their `norm`; as `train_step`, without an optimizer."""

    def compute(params: Any) -> jax.Array:
        return compute_loss(params, tokens, targets, config=config, layout=layout, fused=fused)

    loss, gradients = jax.value_and_grad(compute)(params)
    return {"loss": loss, "norm": optax.global_norm(gradients), "gradients": gradients}


def compute_loss(
    params: Any, tokens: jax.Array, targets: jax.Array, *, config: LlamaConfig, layout: Layout, fused: Fused
) -> jax.Array:
    """Returns the mean cross entropy of the next tokens, f32[]; differentiable in the f32 masters `params`."""
    weights = jax.tree.map(lambda one: one.astype(jnp.bfloat16), params)
    hidden = compute_hidden(weights, tokens, config=config, layout=layout, fused=fused)
    parameter = list_parameters(config)["embedding" if config.tied else "head"]
    head = weights["embedding"].T if config.tied else weights["head"]
    if fused.loss is None:
        return compute_plain_loss(hidden, head, targets)
    if not fused.per_device:
        match fused.logits:
            case Logits.CHUNKED:
                return fused_linear_cross_entropy(hidden, head, targets, mode=fused.loss)
            case Logits.SEED:
                return seed_flce.fused_linear_cross_entropy(hidden, head, targets, mode=fused.loss)
            case Logits.WHOLE | Logits.PARTITIONED:
                logits = jnp.matmul(hidden, head, preferred_element_type=jnp.float32)
                partitioned = fused.logits is Logits.PARTITIONED
                return cross_entropy(logits, targets, partitioned=partitioned, mode=fused.loss)
    partition = layout.split(parameter)
    return fused_linear_cross_entropy_in_shard_map(
        hidden,
        head,
        targets,
        where=jnp.ones(targets.shape, bool),
        axis=DATA,
        weight_partition=partition[::-1] if config.tied else partition,
        vocabulary_axis=layout.vocabulary_axis,
        mode=fused.loss,
    )


def compute_plain_loss(hidden: jax.Array, head: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns the mean cross entropy without a kernel; all logits exist, in bf16, and XLA splits them as it likes."""
    logits = hidden @ head
    at_target = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0].astype(jnp.float32)
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), -1) - at_target)


def init_state(key: jax.Array, config: LlamaConfig) -> State:
    """Returns the state before the first step; call it in a `jit` with the wanted `out_shardings`."""
    leaves, structure = jax.tree.flatten(list_parameters(config), is_leaf=lambda leaf: hasattr(leaf, "dimensions"))
    keys = jax.random.split(key, len(leaves))
    drawn = [
        jax.random.normal(one, leaf.shape) * leaf.deviation if leaf.deviation else jnp.ones(leaf.shape)
        for one, leaf in zip(keys, leaves, strict=True)
    ]
    params = jax.tree.unflatten(structure, drawn)
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"params": params, "mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}


def partition_state(config: LlamaConfig, layout: Layout) -> State:
    """Returns the `PartitionSpec` of each array of the state."""
    params = jax.tree.map(
        lambda parameter: PartitionSpec(*layout.split(parameter)),
        list_parameters(config),
        is_leaf=lambda leaf: hasattr(leaf, "dimensions"),
    )
    return {"params": params, "mu": params, "nu": params, "count": PartitionSpec()}
