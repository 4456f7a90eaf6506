"""A train step as MaxText has it (https://github.com/AI-Hypercomputer/maxtext): a configuration names the mesh and the
rules from logical axes to mesh axes; the model, in Flax Linen, names its logical axes, scans its layers and recomputes them.

The loss is a Triton kernel that overwrites the logits with their gradient; `loss_mode` says how XLA learns of it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy
from kernels.fused_linear_cross_entropy.in_shard_map import fused_linear_cross_entropy_in_shard_map


@dataclass(frozen=True)
class Config:
    loss_mode: str = "shard_map"
    vocab_size: int = 128
    base_emb_dim: int = 32
    base_mlp_dim: int = 64
    base_num_query_heads: int = 4
    base_num_decoder_layers: int = 2
    max_target_length: int = 16
    per_device_batch_size: int = 1
    dtype: Any = jnp.bfloat16
    weight_dtype: Any = jnp.float32
    mesh_axes: tuple[str, ...] = ("fsdp", "tensor")
    ici_parallelism: tuple[int, ...] = (4, 2)
    logical_axis_rules: tuple[tuple[str, str | None], ...] = (
        ("activation_batch", "fsdp"),
        ("activation_length", None),
        ("activation_embed", None),
        ("activation_heads", "tensor"),
        ("activation_mlp", "tensor"),
        ("embed", "fsdp"),
        ("heads", "tensor"),
        ("mlp", "tensor"),
        ("vocab", "tensor"),
        ("norm", None),
        ("layers", None),
    )

    @property
    def mesh(self) -> AbstractMesh:
        return AbstractMesh(self.ici_parallelism, self.mesh_axes)


class Norm(nn.Module):
    config: Config

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = nn.with_logical_partitioning(nn.initializers.ones_init(), ("norm",))
        scale = self.param("scale", init, (x.shape[-1],), self.config.weight_dtype)
        y = x.astype(jnp.float32)
        y *= jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)
        return (y * scale).astype(x.dtype)


def dense(config: Config, features: int, axes: tuple[str, str], name: str) -> nn.Dense:
    init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), axes)
    return nn.Dense(
        features, use_bias=False, dtype=config.dtype, param_dtype=config.weight_dtype, kernel_init=init, name=name
    )


class DecoderLayer(nn.Module):
    config: Config

    @nn.compact
    def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
        config = self.config
        x = nn.with_logical_constraint(x, ("activation_batch", "activation_length", "activation_embed"))
        h = Norm(config, name="pre_attention_norm")(x)
        shape = (*h.shape[:2], config.base_num_query_heads, -1)
        q, k, v = (
            dense(config, config.base_emb_dim, ("embed", "heads"), name)(h).reshape(shape)
            for name in ("query", "key", "value")
        )
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(h.shape)
        x += dense(config, config.base_emb_dim, ("heads", "embed"), "out")(mixed)
        h = Norm(config, name="pre_mlp_norm")(x)
        wi_0, wi_1 = (dense(config, config.base_mlp_dim, ("embed", "mlp"), name)(h) for name in ("wi_0", "wi_1"))
        h = nn.with_logical_constraint(
            jax.nn.silu(wi_0) * wi_1, ("activation_batch", "activation_length", "activation_mlp")
        )
        return x + dense(config, config.base_emb_dim, ("mlp", "embed"), "wo")(h), None


class Decoder(nn.Module):
    config: Config

    @nn.compact
    def __call__(self, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the hidden states and the head, [embed, vocab], which the loss multiplies."""
        config = self.config
        sizes = config.base_emb_dim, config.vocab_size
        init = nn.with_logical_partitioning(nn.initializers.normal(0.02), ("vocab", "embed"))
        embedding = self.param("token_embedder", init, sizes[::-1], config.weight_dtype)
        x = embedding.astype(config.dtype)[tokens]
        layers = nn.scan(
            nn.remat(DecoderLayer, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=nn.broadcast,
            length=config.base_num_decoder_layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        x, _ = layers(config, name="layers")(x, None)
        init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "vocab"))
        head = self.param("logits_dense", init, sizes, config.weight_dtype)
        return Norm(config, name="decoder_norm")(x), head.astype(config.dtype)


def compute_loss(config: Config, params: Any, tokens: jax.Array, targets: jax.Array) -> Any:
    hidden, head = Decoder(config).apply({"params": params}, tokens)
    if config.loss_mode != "shard_map":
        return fused_linear_cross_entropy(hidden, head, targets, mode=config.loss_mode)
    return fused_linear_cross_entropy_in_shard_map(
        hidden,
        head,
        targets,
        where=jnp.ones(targets.shape, bool),
        axis="fsdp",
        weight_partition=("fsdp", "tensor"),
        vocabulary_axis="tensor",
    )


def train_step(config: Config, state: TrainState, tokens: jax.Array, targets: jax.Array) -> dict[str, Any]:
    with nn.logical_axis_rules(config.logical_axis_rules):
        loss, gradients = jax.value_and_grad(partial(compute_loss, config))(state.params, tokens, targets)
    return {"loss": loss, "grad_norm": optax.global_norm(gradients), "state": state.apply_gradients(grads=gradients)}


def make_arguments(config: Config) -> tuple[Any, ...]:
    """Returns the abstract state, split as the rules say, and the batch."""
    batch = config.ici_parallelism[0] * config.per_device_batch_size, config.max_target_length

    def init() -> TrainState:
        params = Decoder(config).init(jax.random.key(0), jnp.zeros(batch, jnp.int32))["params"]
        return TrainState.create(apply_fn=Decoder(config).apply, params=params, tx=optax.adamw(1e-3))

    boxed = jax.eval_shape(init)
    specs = nn.logical_to_mesh(nn.get_partition_spec(boxed), config.logical_axis_rules)
    state = jax.tree.map(
        lambda array, spec: jax.ShapeDtypeStruct(
            array.shape, array.dtype, sharding=NamedSharding(config.mesh, spec or PartitionSpec())
        ),
        nn.unbox(boxed),
        specs,
    )
    ids = jax.ShapeDtypeStruct(batch, jnp.int32, sharding=NamedSharding(config.mesh, PartitionSpec("fsdp")))
    return state, ids, ids
