"""Ordinary JAX programs without any in-place kernel: what replay computes for them is held against XLA:CPU.

Each case's reference is its own function.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ligerdiag.case import Arg, Case, Draw
from tests.replay.programs.transformer import CONFIGURATIONS, PARAMETERS, make_train_step

F32 = "float32"


def _arg(*shape: int, seed: int = 0, scale: float = 1.0, donate: bool = False) -> Arg:
    return Arg(shape=shape, draw=Draw(seed=seed, scale=scale), donate=donate)


def _ids(*shape: int, high: int, seed: int = 7) -> Arg:
    return Arg(shape=shape, dtype="int32", draw=Draw(kind="randint", seed=seed, low=0, high=high))


def mlp_sgd(w1: Any, w2: Any, x: Any, y: Any) -> Any:
    def loss(w1: Any, w2: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ w1) @ w2 - y) ** 2)

    value, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return {"loss": value, "w1": w1 - 0.1 * g1, "w2": w2 - 0.1 * g2}


def with_optimizer(make: Callable[[], Any]) -> Callable[..., Any]:
    def step(w: Any, x: Any, y: Any) -> Any:
        optimizer = make()
        state = optimizer.init({"w": w})
        for scale in (1.0, 0.5):
            gradient = jax.grad(lambda p, s=scale: jnp.mean(jnp.tanh(x @ p["w"] * s - y) ** 2))({"w": w})
            updates, state = optimizer.update(gradient, state, {"w": w})
            w = optax.apply_updates({"w": w}, updates)["w"]
        return {"w": w}

    return step


def clipped_and_averaged(w: Any, ema: Any, x: Any) -> Any:
    gradient = jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w)
    norm = jnp.sqrt(jnp.sum(gradient**2))
    gradient = gradient * jnp.minimum(1.0, 1.0 / norm)
    return {"norm": norm, "w": w - 0.1 * gradient, "ema": 0.9 * ema + 0.1 * w}


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


def reversed_scan(x: Any) -> Any:
    return jax.lax.scan(lambda c, v: (0.9 * c + jnp.tanh(v), c), jnp.zeros(x.shape[1:]), x, reverse=True)


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


def sorting(x: Any) -> Any:
    order = jnp.argsort(x, axis=-1)
    return {
        "sorted": jnp.sort(x, axis=0),
        "order": order,
        "descending": -jnp.sort(-x, axis=-1),
        "median": jnp.median(x),
    }


def sort_pairs(keys: Any, values: Any) -> Any:
    return jax.lax.sort((keys, values, -values), num_keys=2)


def cumulative(x: Any) -> Any:
    return {"sum": jnp.cumsum(x, 1), "max": jax.lax.cummax(x, 1), "product": jnp.cumprod(x * 0.1 + 1, 0)}


def dropout(x: Any, w: Any) -> Any:
    key = jax.random.key(3)
    keep = jax.random.bernoulli(key, 0.8, x.shape)
    return jax.grad(lambda w: jnp.sum(jnp.where(keep, x / 0.8, 0) @ w) ** 2)(w)


def random_normal(x: Any) -> Any:
    key = jax.random.key(11)
    one, two = jax.random.split(key)
    return x + jax.random.normal(one, x.shape) + jax.random.uniform(two, x.shape)


def random_choice(logits: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(5), 9)
    return {"sample": jax.random.categorical(key, logits), "permutation": jax.random.permutation(key, 40)}


def newton(x: Any) -> Any:
    def go(state: Any) -> Any:
        y, n = state
        return 0.5 * (y + x / y), n + 1

    start = (jnp.ones_like(x), 0)
    return jax.lax.while_loop(lambda s: (jnp.max(jnp.abs(s[0] ** 2 - x)) > 1e-3) & (s[1] < 20), go, start)


def branches(x: Any, which: Any) -> Any:
    y = jax.lax.switch(which[0], [jnp.sin, lambda x: x * 2, lambda x: x @ x.T @ x], x)
    return jax.lax.cond(y.sum() > 0, lambda y: y + 1, lambda y: -y, y)


def fori_updates(x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        row = jax.lax.dynamic_slice(x, (i, 0), (1, x.shape[1]))
        return jax.lax.dynamic_update_slice(x, jnp.tanh(row) + x[:1], (i, 0))

    return jax.lax.fori_loop(1, x.shape[0], body, x)


def pooling(x: Any) -> Any:
    def pool(x: Any) -> Any:
        most = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2), (1, 2, 2), "VALID")
        mean = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3), (1, 2, 2), "SAME") / 9
        return most.sum() + (mean**2).sum()

    value, gradient = jax.value_and_grad(pool)(x)
    return {"value": value, "gradient": gradient}


def log_softmax_loss(logits: Any, labels: Any) -> Any:
    def loss(logits: Any) -> Any:
        smooth = jax.nn.one_hot(labels, logits.shape[1]) * 0.9 + 0.1 / logits.shape[1]
        return -(jax.nn.log_softmax(logits) * smooth).sum(1).mean()

    value, gradient = jax.value_and_grad(loss)(logits)
    return {"loss": value, "gradient": gradient}


def bit_mixing(x: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x45D9F3B)
    return {"bits": bits, "ones": jax.lax.population_count(bits), "zeros": jax.lax.clz(bits), "rest": bits % 1000}


def segments(x: Any, ids: Any) -> Any:
    return {
        "sum": jax.ops.segment_sum(x, ids, 6),
        "max": jax.ops.segment_max(x, ids, 6),
        "gradient": jax.grad(lambda x: (jax.ops.segment_sum(x, ids, 6) ** 2).sum())(x),
    }


def linear_recurrence(a: Any, b: Any) -> Any:
    return jax.lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (jnp.tanh(a), b))


def rotation(x: Any) -> Any:
    z = jax.lax.complex(x, jnp.roll(x, 1)) * jnp.exp(1j * x)
    return {"real": z.real, "imaginary": z.imag, "length": jnp.abs(z), "product": (z @ z.conj().T).real}


def batch_norm(x: Any, scale: Any) -> Any:
    def run(x: Any, scale: Any) -> Any:
        mean, variance = x.mean(0), x.var(0)
        return (jax.nn.gelu((x - mean) / jnp.sqrt(variance + 1e-5) * scale) ** 2).mean(), (mean, variance)

    (value, statistics), gradients = jax.value_and_grad(run, (0, 1), has_aux=True)(x, scale)
    return {"value": value, "statistics": statistics, "gradients": gradients}


def contractions(a: Any, b: Any, c: Any) -> Any:
    return {
        "outer": jnp.einsum("i,j->ij", a[0, 0], c[0]),
        "batched": jnp.einsum("bij,bjk->bik", a, b),
        "swapped": jnp.einsum("bij,bjk->kib", a, b),
        "traced": jnp.einsum("bii->b", a[:, :, : a.shape[1]]),
        "matvec": jnp.einsum("bij,j->ib", a, c[:, 0]),
        "all": jnp.einsum("bij,bjk,kl->l", a, b, c.T),
    }


def decode_step(cache: Any, token: Any, w: Any, position: Any) -> Any:
    new = token @ w
    cache = jax.lax.dynamic_update_slice(cache, new[None], (position[0], 0))
    visible = jnp.arange(cache.shape[0]) <= position[0]
    weights = jax.nn.softmax(jnp.where(visible, cache @ new, -1e9))
    return {"out": weights @ cache, "cache": cache}


def beams(logits: Any) -> Any:
    scores, ids = jax.lax.top_k(jax.nn.log_softmax(logits).reshape(-1), 5)
    return {"scores": scores, "beam": ids // logits.shape[1], "token": ids % logits.shape[1]}


def hessian_vector(w: Any, x: Any, v: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.log1p(jnp.exp(x @ w)).sum()

    return jax.jvp(jax.grad(loss), (w,), (v,))


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return jnp.sin(x)


_clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g * jnp.cos(x), -0.5, 0.5),))


def custom_rule(x: Any) -> Any:
    return jax.grad(lambda x: (_clipped(x) * x).sum())(x)


def quantized(x: Any, w: Any) -> Any:
    scale = jnp.abs(x).max() / 127
    quantized_x = jnp.round(x / scale).astype(jnp.int8)
    quantized_w = jnp.clip(jnp.round(w * 50), -128, 127).astype(jnp.int8)
    product = jax.lax.dot(quantized_x, quantized_w, preferred_element_type=jnp.int32)
    return {"product": product, "out": product.astype(F32) * scale / 50}


def rearranged(x: Any, y: Any) -> Any:
    padded = jax.lax.pad(x, 0.5, ((1, 2, 1), (-1, 3, 0)))
    joined = jnp.concatenate([x, y[::-1], jnp.flip(x, 1)], 0)
    return {
        "padded": padded,
        "joined": joined,
        "tiled": jnp.tile(x, (2, 1)),
        "rolled": jnp.roll(joined, (2, 3), (0, 1)),
    }


def accumulated(w: Any, total: Any, batches: Any) -> Any:
    def micro(carry: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return carry + gradient, loss

    gradient, losses = jax.lax.scan(micro, jnp.zeros_like(w), batches)
    return {"w": w - gradient / len(batches), "total": total + losses.sum(), "losses": losses}


def recomputed(w: Any, x: Any) -> Any:
    @jax.checkpoint
    def block(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) @ w.T

    def loss(w: Any) -> Any:
        return jnp.sum(block(block(block(x, w), w), w) ** 2)

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


def special_functions(x: Any) -> Any:
    y = jnp.abs(x) + 0.5
    return {
        "erf": jax.lax.erf(x), "erfinv": jax.lax.erf_inv(jnp.tanh(x) * 0.9), "log1p": jnp.log1p(y), "expm1": jnp.expm1(x),
        "logaddexp": jnp.logaddexp(x, y), "gelu": jax.nn.gelu(x), "power": y**x, "cbrt": jnp.cbrt(x),
        "atan2": jnp.arctan2(x, y), "softplus": jax.nn.softplus(x), "lgamma": jax.lax.lgamma(y), "sinh": jnp.sinh(x),
    }  # fmt: skip


def not_finite(x: Any) -> Any:
    y = jnp.where(x > 1, jnp.nan, x)
    return {"mean": jnp.nanmean(y), "filled": jnp.nan_to_num(y), "count": jnp.isnan(y).sum(), "most": jnp.nanmax(y)}


def gathered(x: Any, rows: Any) -> Any:
    return {
        "rows": x[rows],
        "pairs": x[rows, rows % x.shape[1]],
        "set": x.at[rows].set(1.0),
        "added": x.at[rows, 0].add(2.0),
        "along": jnp.take_along_axis(x[:4], rows[:, None] % x.shape[1], 1),
        "least": x.at[rows].min(0.0),
    }


def _case(name: str, function: Callable[..., Any], *args: Arg) -> Case:
    return Case(name=name, function=function, args=args, reference=function)


_W, _X = _arg(16, 8, seed=1, scale=0.3), _arg(12, 16, seed=2)

CASES = (
    _case("mlp_sgd", mlp_sgd, _arg(16, 32, seed=1), _arg(32, 4, seed=2), _arg(8, 16, seed=3), _arg(8, 4, seed=4)),
    *[
        _case(f"optimizer_{name}", with_optimizer(make), _W, _X, _arg(12, 8, seed=3))
        for name, make in {
            "adam": lambda: optax.adam(1e-2),
            "adamw": lambda: optax.adamw(1e-2, weight_decay=0.1),
            "momentum": lambda: optax.sgd(1e-2, momentum=0.9, nesterov=True),
            "lion": lambda: optax.lion(1e-3),
            "adafactor": lambda: optax.adafactor(1e-2),
            "schedule": lambda: optax.chain(
                optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.1, 100))
            ),
        }.items()
    ],
    _case("clipped_and_averaged", clipped_and_averaged, _W, _arg(16, 8, seed=5, donate=True), _X),
    _case("lstm", lstm, _arg(5, 4, 8), _arg(8, 32, seed=1), _arg(8, 32, seed=2)),
    _case("reversed_scan", reversed_scan, _arg(6, 4, 8)),
    _case("layer_norm", layer_norm, _arg(8, 32), _arg(32, seed=1), _arg(32, seed=2)),
    _case(
        "rms_swiglu_rope",
        rms_swiglu_rope,
        _arg(8, 16),
        _arg(16, 24, seed=1),
        _arg(16, 24, seed=2),
        _arg(24, 16, seed=3),
    ),
    _case("embedding", embedding, _arg(20, 8), _ids(5, 7, high=20)),
    _case("causal_attention", causal_attention, *[_arg(2, 3, 8, 16, seed=n) for n in range(3)]),
    _case("mixture_of_experts", mixture_of_experts, _arg(10, 8), _arg(8, 4, seed=1), _arg(4, 8, 6, seed=2)),
    _case("sorting", sorting, _arg(9, 33)),
    _case("sort_pairs", sort_pairs, _ids(40, high=7), _arg(40, seed=2)),
    _case("cumulative", cumulative, _arg(6, 40)),
    _case("dropout", dropout, _X, _W),
    _case("random_normal", random_normal, _arg(7, 13)),
    _case("random_choice", random_choice, _arg(6, 11)),
    _case("newton", newton, Arg(shape=(12,), draw=Draw(kind="uniform", seed=3, low=1, high=9))),
    _case("branches", branches, _arg(6, 6), _ids(1, high=3)),
    _case("fori_updates", fori_updates, _arg(9, 5)),
    _case("pooling", pooling, _arg(2, 8, 8)),
    _case("log_softmax_loss", log_softmax_loss, _arg(9, 21), _ids(9, high=21)),
    _case("bit_mixing", bit_mixing, _arg(50)),
    _case("segments", segments, _arg(30, 4), _ids(30, high=6)),
    _case("linear_recurrence", linear_recurrence, _arg(17, 4), _arg(17, 4, seed=1)),
    _case("rotation", rotation, _arg(6, 10)),
    _case("batch_norm", batch_norm, _arg(16, 6), _arg(6, seed=1)),
    _case("contractions", contractions, _arg(3, 4, 5), _arg(3, 5, 6, seed=1), _arg(5, 6, seed=2)),
    _case("decode_step", decode_step, _arg(16, 8), _arg(8, seed=1), _arg(8, 8, seed=2), _ids(1, high=16)),
    _case("beams", beams, _arg(4, 30)),
    _case("hessian_vector", hessian_vector, _W, _X, _arg(16, 8, seed=6)),
    _case("custom_rule", custom_rule, _arg(11)),
    _case("quantized", quantized, _X, _W),
    _case("rearranged", rearranged, _arg(4, 6), _arg(3, 6, seed=1)),
    _case("accumulated", accumulated, _W, _arg(1, donate=True), _arg(4, 12, 16, seed=4)),
    _case("recomputed", recomputed, _arg(16, 16, scale=0.2), _arg(4, 16, seed=1)),
    _case("special_functions", special_functions, _arg(64)),
    _case("not_finite", not_finite, _arg(40)),
    _case("gathered", gathered, _arg(10, 6), _ids(4, high=10)),
    *[
        _case(f"transformer_{name}", make_train_step(configuration), *PARAMETERS, _ids(2, 8, high=32))
        for name, configuration in CONFIGURATIONS.items()
    ],
)
