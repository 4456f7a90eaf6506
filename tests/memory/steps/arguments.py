"""Arguments of steps, and a small Llama that they train and decode."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag.model.case import Arg

LAYERS, WIDTH, INNER, HEADS, VOCABULARY = 4, 256, 512, 4, 2048
BATCH, TOKENS = 4, 128
HEAD = WIDTH // HEADS


def make_args(tree: Any, *, donate: bool = False, partition: tuple[Any, ...] = ()) -> Any:
    """Returns an `Arg` for each array or shape of the tree."""
    return jax.tree.map(
        lambda leaf: Arg(
            shape=leaf.shape,
            dtype=str(leaf.dtype),
            donate=donate,
            partition=partition if len(leaf.shape) >= len(partition) else (),
        ),
        tree,
    )


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype))


def ids(*sizes: int) -> Arg:
    return Arg(shape=sizes, dtype="int32")


def llama_shapes(dtype: str = "float32") -> dict[str, Any]:
    """Returns the shapes of the parameters; those of all layers are stacked."""
    return {
        "embedding": shape(VOCABULARY, WIDTH, dtype=dtype),
        "norm": shape(WIDTH, dtype=dtype),
        "head": shape(WIDTH, VOCABULARY, dtype=dtype),
        "layers": {
            "qkv": shape(LAYERS, WIDTH, 3 * WIDTH, dtype=dtype),
            "out": shape(LAYERS, WIDTH, WIDTH, dtype=dtype),
            "gate": shape(LAYERS, WIDTH, INNER, dtype=dtype),
            "up": shape(LAYERS, WIDTH, INNER, dtype=dtype),
            "down": shape(LAYERS, INNER, WIDTH, dtype=dtype),
            "norm_1": shape(LAYERS, WIDTH, dtype=dtype),
            "norm_2": shape(LAYERS, WIDTH, dtype=dtype),
        },
    }


def norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def rope(x: Any, positions: Any) -> Any:
    """Turns float[batch, tokens, heads, size] by positions int[batch, tokens] or int[tokens]."""
    half = x.shape[-1] // 2
    angles = positions[..., None] * 10_000.0 ** (-jnp.arange(half) / half)
    sine, cosine = (f(angles)[..., None, :].astype(x.dtype) for f in (jnp.sin, jnp.cos))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def mix(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention of float[batch, queries, heads, size] to float[batch, keys, heads, size]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / HEAD**0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30)).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def split_heads(x: Any) -> Any:
    return [one.reshape(*one.shape[:-1], HEADS, HEAD) for one in jnp.split(x, 3, -1)]


def feed_forward(x: Any, own: Any) -> Any:
    hidden = norm(x, own["norm_2"])
    return x + (jax.nn.silu(hidden @ own["gate"]) * (hidden @ own["up"])) @ own["down"]


def layer(x: Any, own: Any) -> Any:
    q, k, v = split_heads(norm(x, own["norm_1"]) @ own["qkv"])
    positions = jnp.arange(x.shape[1])
    mixed = mix(rope(q, positions), rope(k, positions), v, jnp.tril(jnp.ones((x.shape[1],) * 2, bool)))
    return feed_forward(x + mixed.reshape(x.shape) @ own["out"], own)


def llama(params: Any, tokens: Any, policy: Any = None, dtype: Any = jnp.bfloat16) -> Any:
    """Returns logits float32[batch, tokens, VOCABULARY]."""
    params = jax.tree.map(lambda one: one.astype(dtype), params)
    body = jax.checkpoint(lambda x, own: (layer(x, own), None), policy=policy, prevent_cse=False)
    x, _ = lax.scan(body, params["embedding"][tokens], params["layers"])
    return (norm(x, params["norm"]) @ params["head"]).astype(jnp.float32)


def cross_entropy(logits: Any, targets: Any) -> Any:
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def llama_loss(params: Any, batch: Any, policy: Any = None, dtype: Any = jnp.bfloat16) -> Any:
    tokens, targets = batch
    return cross_entropy(llama(params, tokens, policy, dtype), targets)
