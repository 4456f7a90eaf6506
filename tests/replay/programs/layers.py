"""Layers of networks, most of them with their gradients."""

from typing import Any

import jax
import jax.numpy as jnp

from tests.replay.programs.arguments import W, X, draw_ids, draw_normal, make_case


def lstm(x: Any, wx: Any, wh: Any) -> Any:
    value, gradient = jax.value_and_grad(lambda p: _lstm_loss(p, x))((wx, wh))
    return {"loss": value, "wx": gradient[0], "wh": gradient[1]}


def _lstm_loss(parameters: Any, x: Any) -> Any:
    wx, wh = parameters

    def cell(carry: Any, step: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(step @ wx + h @ wh, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], wh.shape[0]))
    _, hs = jax.lax.scan(cell, (zero, zero), x)
    return jnp.mean(hs**2)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    def normalize(x: Any, scale: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias

    value, pull = jax.vjp(normalize, x, scale, bias)
    return {"value": value, "gradients": pull(jnp.cos(value))}


def rms_swiglu_rope(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    x = x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    angles = jnp.arange(x.shape[0])[:, None] / 10000 ** (jnp.arange(0, x.shape[1], 2) / x.shape[1])
    even, odd = x[:, ::2], x[:, 1::2]
    rotated = jnp.stack(
        [even * jnp.cos(angles) - odd * jnp.sin(angles), even * jnp.sin(angles) + odd * jnp.cos(angles)], -1
    )
    x = rotated.reshape(x.shape)
    return (jax.nn.silu(x @ w1) * (x @ w2)) @ w3


def embedding(table: Any, ids: Any) -> Any:
    value, gradient = jax.value_and_grad(lambda table: jnp.sum(jnp.tanh(table[ids]) ** 2))(table)
    return {"value": value, "gradient": gradient}


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v)

    value, pull = jax.vjp(attend, q, k, v)
    return {"value": value, "gradients": pull(jnp.sin(value))}


def mixture_of_experts(x: Any, router: Any, experts: Any) -> Any:
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
    gate = (jax.nn.one_hot(chosen, router.shape[1]) * weights[..., None]).sum(1)
    return {"out": jnp.einsum("td,edf,te->tf", x, experts, gate), "chosen": chosen}


def dropout(x: Any, w: Any) -> Any:
    key = jax.random.key(3)
    keep = jax.random.bernoulli(key, 0.8, x.shape)
    return jax.grad(lambda w: jnp.sum(jnp.where(keep, x / 0.8, 0) @ w) ** 2)(w)


def pooling(x: Any) -> Any:
    def pool(x: Any) -> Any:
        most = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2), (1, 2, 2), "VALID")
        mean = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3), (1, 2, 2), "SAME") / 9
        return most.sum() + (mean**2).sum()

    value, gradient = jax.value_and_grad(pool)(x)
    return {"value": value, "gradient": gradient}


def batch_norm(x: Any, scale: Any) -> Any:
    def run(x: Any, scale: Any) -> Any:
        mean, variance = x.mean(0), x.var(0)
        return (jax.nn.gelu((x - mean) / jnp.sqrt(variance + 1e-5) * scale) ** 2).mean(), (mean, variance)

    (value, statistics), gradients = jax.value_and_grad(run, (0, 1), has_aux=True)(x, scale)
    return {"value": value, "statistics": statistics, "gradients": gradients}


def decode_step(cache: Any, token: Any, w: Any, position: Any) -> Any:
    new = token @ w
    cache = jax.lax.dynamic_update_slice(cache, new[None], (position[0], 0))
    visible = jnp.arange(cache.shape[0]) <= position[0]
    weights = jax.nn.softmax(jnp.where(visible, cache @ new, -1e9))
    return {"out": weights @ cache, "cache": cache}


def quantized(x: Any, w: Any) -> Any:
    scale = jnp.abs(x).max() / 127
    quantized_x = jnp.round(x / scale).astype(jnp.int8)
    quantized_w = jnp.clip(jnp.round(w * 50), -128, 127).astype(jnp.int8)
    product = jax.lax.dot(quantized_x, quantized_w, preferred_element_type=jnp.int32)
    return {"product": product, "out": product.astype("float32") * scale / 50}


CASES = (
    make_case("lstm", lstm, draw_normal(5, 4, 8), draw_normal(8, 32, seed=1), draw_normal(8, 32, seed=2)),
    make_case("layer_norm", layer_norm, draw_normal(8, 32), draw_normal(32, seed=1), draw_normal(32, seed=2)),
    make_case(
        "rms_swiglu_rope",
        rms_swiglu_rope,
        draw_normal(8, 16),
        draw_normal(16, 24, seed=1),
        draw_normal(16, 24, seed=2),
        draw_normal(24, 16, seed=3),
    ),
    make_case("embedding", embedding, draw_normal(20, 8), draw_ids(5, 7, high=20)),
    make_case("causal_attention", causal_attention, *[draw_normal(2, 3, 8, 16, seed=n) for n in range(3)]),
    make_case(
        "mixture_of_experts",
        mixture_of_experts,
        draw_normal(10, 8),
        draw_normal(8, 4, seed=1),
        draw_normal(4, 8, 6, seed=2),
    ),
    make_case("dropout", dropout, X, W),
    make_case("pooling", pooling, draw_normal(2, 8, 8)),
    make_case("batch_norm", batch_norm, draw_normal(16, 6), draw_normal(6, seed=1)),
    make_case(
        "decode_step",
        decode_step,
        draw_normal(16, 8),
        draw_normal(8, seed=1),
        draw_normal(8, 8, seed=2),
        draw_ids(1, high=16),
    ),
    make_case("quantized", quantized, X, W),
)
