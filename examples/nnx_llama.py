"""A decoder in Flax NNX as one writes it, trained on eight GPUs with FSDP, whose loss is a Triton kernel.

The loss overwrites the logits with their gradient. `mode` says how XLA learns of it: see kernels/modes.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy
from kernels.fused_linear_cross_entropy.in_shard_map import fused_linear_cross_entropy_in_shard_map

VOCABULARY, WIDTH, INNER, HEADS, LAYERS, BATCH, TOKENS = 128, 32, 64, 4, 2, 8, 16
MESH = AbstractMesh((8,), ("data",))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention_norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, use_bias=False, decode=False, rngs=rngs)
        self.mlp_norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.gate = nnx.Linear(WIDTH, INNER, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(WIDTH, INNER, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(INNER, WIDTH, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x += self.attention(self.attention_norm(x), mask=jnp.tril(jnp.ones((TOKENS, TOKENS), bool)))
        h = self.mlp_norm(x)
        return x + self.down(jax.nn.silu(self.gate(h)) * self.up(h))


class Decoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embedding = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCABULARY, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def make_training() -> tuple[Decoder, nnx.Optimizer]:
    model = Decoder(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


def compute_loss(model: Decoder, tokens: jax.Array, targets: jax.Array, mode: str) -> Any:
    hidden, head = model(tokens), model.head.kernel[...]
    if mode == "shard_map":
        where = jnp.ones(targets.shape, bool)
        return fused_linear_cross_entropy_in_shard_map(
            hidden, head, targets, where=where, axis="data", weight_partition=("data", None)
        )
    return fused_linear_cross_entropy(hidden, head, targets, mode=mode)


def train_step(state: nnx.State, tokens: jax.Array, targets: jax.Array, *, mode: str) -> dict[str, Any]:
    """The state is that of model and optimizer; in the loop of the training, `jax.jit` donates it."""
    model, optimizer = nnx.merge(nnx.graphdef(nnx.eval_shape(make_training)), state)
    loss, gradients = nnx.value_and_grad(compute_loss)(model, tokens, targets, mode)
    optimizer.update(model, gradients)
    return {"loss": loss, "state": nnx.state((model, optimizer))}


def make_arguments() -> tuple[Any, ...]:
    """Shapes and shardings are all that a check needs: the first dimension of each array that it divides is split."""

    def split(array: Any) -> jax.ShapeDtypeStruct:
        divides = array.ndim and array.shape[0] % MESH.size == 0
        sharding = NamedSharding(MESH, PartitionSpec("data") if divides else PartitionSpec())
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    state = jax.tree.map(split, nnx.state(nnx.eval_shape(make_training)))
    ids = split(jax.ShapeDtypeStruct((BATCH, TOKENS), jnp.int32))
    return state, ids, ids
