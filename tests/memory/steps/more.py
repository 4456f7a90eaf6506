"""Other usual steps: reinforcement learning, ring attention, flat parameters, growing caches: CASES."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

from ligerdiag.model.case import Arg, Case
from tests.memory.steps.arguments import (
    HEAD,
    HEADS,
    LAYERS,
    WIDTH,
    feed_forward,
    ids,
    make_args,
    mix,
    shape,
)
from tests.memory.steps.decode import LONGEST, ONE_CACHE, PARAMS, POSITION, ROWS, STACKED, TOKEN, pick, project
from tests.memory.steps.train import MLP

P = jax.P
ADAM = optax.adam(1e-3)


def mlp_loss(params: Any, batch: Any) -> Any:
    x, y = batch
    return jnp.mean((jax.nn.gelu(x @ params["a"]) @ params["b"] - y) ** 2)


def push_and_learn(params: Any, opt_state: Any, buffer: Any, count: Any, row: Any, picks: Any) -> Any:
    """A replay buffer gets a row, and the network learns from others if the buffer is full."""
    buffer = {name: old.at[count % old.shape[0]].set(row[name]) for name, old in buffer.items()}

    def learn(params: Any, opt_state: Any) -> Any:
        batch = buffer["x"][picks], buffer["y"][picks]
        changes, opt_state = ADAM.update(jax.grad(mlp_loss)(params, batch), opt_state, params)
        return optax.apply_updates(params, changes), opt_state

    params, opt_state = lax.cond(count > 1000, learn, lambda *same: same, params, opt_state)
    return params, opt_state, buffer, count + 1


def advantages(values: Any, rewards: Any, done: Any) -> Any:
    """Generalized advantages by a reverse scan over time."""

    def step(carry: Any, now: Any) -> Any:
        total, following = carry
        value, reward, is_done = now
        delta = reward + 0.99 * following * (1 - is_done) - value
        total = delta + 0.95 * 0.99 * (1 - is_done) * total
        return (total, value), total

    start = jnp.zeros_like(values[0]), values[-1]
    _, found = lax.scan(step, start, (values, rewards, done), reverse=True)
    return found, found + values


def flat_parameters(flat: Any, opt_state: Any, batch: Any) -> Any:
    """All parameters in one vector."""
    _, unravel = ravel_pytree(jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), MLP))
    gradient = jax.grad(lambda flat: mlp_loss(unravel(flat), batch))(flat)
    changes, opt_state = ADAM.update(gradient, opt_state, flat)
    return optax.apply_updates(flat, changes), opt_state


def ring_attention(q: Any, k: Any, v: Any, unroll: int = 1) -> Any:
    """Keys and values go around the devices, while each attends to those that it has."""

    def local(q: Any, k: Any, v: Any) -> Any:
        around = [(i, (i + 1) % 4) for i in range(4)]

        def step(_: Any, carry: Any) -> Any:
            out, total, k, v = carry
            weights = jnp.exp(jnp.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5 - 8)
            out += jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            total += weights.sum(-1)
            return out, total, lax.ppermute(k, "x", around), lax.ppermute(v, "x", around)

        start = jnp.zeros_like(q), jnp.zeros((q.shape[0], q.shape[2], q.shape[1]), q.dtype), k, v
        out, total, _, _ = lax.fori_loop(0, 4, step, start, unroll=unroll)
        return out / total.swapaxes(1, 2)[..., None]

    rows = P(None, "x")
    return jax.shard_map(local, in_specs=rows, out_specs=rows, check_vma=False)(q, k, v)


def recurrent_unit(params: Any, momentum: Any, x: Any, y: Any) -> Any:
    """A gated recurrent unit in a scan over time, with its backward pass."""

    def loss(params: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            gates = jax.nn.sigmoid(now @ params["w"] + state @ params["u"])
            reset, keep = jnp.split(gates, 2, -1)
            new = jnp.tanh(now @ params["c"] + (reset * state) @ params["d"])
            state = keep * state + (1 - keep) * new
            return state, state

        _, states = lax.scan(step, jnp.zeros_like(x[0]), x)
        return jnp.mean((states - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda w, m: w - 0.1 * m, params, momentum), momentum, value


def grown(params: Any, cache: Any, token: Any, position: Any) -> Any:
    """The cache grows by concatenation."""
    own = jax.tree.map(lambda one: one[0], params["layers"])
    x = params["embedding"][token]
    q, k, v = project(own, x, position)
    keys, values = jnp.concatenate([cache["k"], k], 1), jnp.concatenate([cache["v"], v], 1)
    x = feed_forward(x + mix(q, keys, values, jnp.bool_(True)).reshape(x.shape) @ own["out"], own)
    return pick(params, x), {"k": keys, "v": values}


def evicted(cache: Any, lengths: Any, finished: Any) -> Any:
    """The rows of finished requests are cleared."""
    clear = finished[None, :, None, None, None]
    return {name: jnp.where(clear, 0, one) for name, one in cache.items()}, jnp.where(finished, 0, lengths)


def inserted(cache: Any, prompt: Any, slot: Any) -> Any:
    """The cache of a prompt goes into a slot of the cache of all requests."""
    return {name: lax.dynamic_update_slice(cache[name], prompt[name], (0, slot, 0, 0, 0)) for name in ("k", "v")}


def reordered(cache: Any, order: Any) -> Any:
    """The rows of a stacked cache in another order."""
    return jax.tree.map(lambda one: jnp.take(one, order, axis=1), cache)


def chunked_prefill(params: Any, cache: Any, tokens: Any) -> Any:
    """A prompt goes through one layer in chunks of 64 tokens."""
    own = jax.tree.map(lambda one: one[0], params["layers"])

    def step(number: Any, cache: Any) -> Any:
        x = params["embedding"][lax.dynamic_slice_in_dim(tokens, number * 64, 64, 1)]
        hidden = x @ own["qkv"]
        _, k, v = jnp.split(hidden, 3, -1)
        k, v = (one.reshape(ROWS, 64, HEADS, HEAD) for one in (k, v))
        where = 0, number * 64, 0, 0
        return {
            "k": lax.dynamic_update_slice(cache["k"], k, where),
            "v": lax.dynamic_update_slice(cache["v"], v, where),
        }

    return lax.fori_loop(0, LONGEST // 64, step, cache)


def denoise(params: Any, x: Any, noise: Any) -> Any:
    """Sampling of a diffusion model: a scan over steps whose state is the picture."""

    def step(x: Any, now: Any) -> Any:
        number, noise = now
        guess = jax.nn.gelu(x @ params["a"]) @ params["b"]
        return 0.99 * (x - 0.1 * guess) + 0.01 * noise * (number > 0), None

    return lax.scan(step, x, (jnp.arange(8)[::-1], noise))[0]


def sgd_in_refs(params: Any, batch: Any) -> Any:
    """Parameters in Refs that the step writes."""
    refs = jax.tree.map(jax.new_ref, params)
    gradients = jax.grad(mlp_loss)(params, batch)
    for name, gradient in gradients.items():
        refs[name][...] -= 0.1 * gradient
    return jax.tree.map(jax.freeze, refs)


def by_layer(params: Any, mu: Any, gradients: Any) -> Any:
    """The optimizer in a scan over stacked layers."""

    def step(_: Any, one: Any) -> Any:
        weight, mean, gradient = one
        mean = 0.9 * mean + 0.1 * gradient
        return None, (weight - 0.01 * jnp.sign(mean), mean)

    _, (params, mu) = lax.scan(step, None, (params, mu, gradients))
    return params, mu


def case(name: str, function: Any, *args: Any, mesh: Any = None) -> Case:
    return Case(name=name, function=function, args=args, mesh=mesh or {})


COUNT = Arg(shape=(), dtype="int32")
TOTAL = 2 * 256 * 1024
BATCH = Arg(shape=(64, 256)), Arg(shape=(64, 256))
UNIT = {"w": shape(256, 512), "u": shape(256, 512), "c": shape(256, 256), "d": shape(256, 256)}
LAYER = make_args(shape(LAYERS, WIDTH, WIDTH), donate=True)
BY_TIME = Arg(shape=(128, 512), donate=True)
SPLIT = Arg(shape=(2, 1024, HEADS, HEAD), partition=(None, "x"))

CASES = (
    case(
        "push_and_learn",
        push_and_learn,
        make_args(MLP, donate=True),
        make_args(jax.eval_shape(ADAM.init, MLP), donate=True),
        make_args({"x": shape(4096, 256), "y": shape(4096, 256)}, donate=True),
        COUNT,
        {"x": Arg(shape=(256,)), "y": Arg(shape=(256,))},
        ids(64),
    ),
    case("advantages", advantages, BY_TIME, BY_TIME, Arg(shape=(128, 512))),
    case(
        "flat_parameters",
        flat_parameters,
        Arg(shape=(TOTAL,), donate=True),
        make_args(jax.eval_shape(ADAM.init, shape(TOTAL)), donate=True),
        BATCH,
    ),
    case("ring_attention", ring_attention, SPLIT, SPLIT, SPLIT, mesh={"x": 4}),
    case(
        "recurrent_unit",
        recurrent_unit,
        *[make_args(UNIT, donate=True)] * 2,
        Arg(shape=(64, 32, 256)),
        Arg(shape=(64, 32, 256)),
    ),
    case("grown", grown, PARAMS, make_args({"k": ONE_CACHE, "v": ONE_CACHE}, donate=True), TOKEN, POSITION),
    case("evicted", evicted, STACKED, ids(ROWS), Arg(shape=(ROWS,), dtype="bool")),
    case(
        "inserted",
        inserted,
        STACKED,
        make_args({name: shape(LAYERS, 1, LONGEST, HEADS, HEAD, dtype="bfloat16") for name in "kv"}),
        COUNT,
    ),
    case("reordered", reordered, STACKED, ids(ROWS)),
    case(
        "chunked_prefill",
        chunked_prefill,
        PARAMS,
        make_args({"k": ONE_CACHE, "v": ONE_CACHE}, donate=True),
        ids(ROWS, LONGEST),
    ),
    case("denoise", denoise, make_args(MLP), Arg(shape=(256, 256), donate=True), Arg(shape=(8, 256, 256))),
    case("sgd_in_refs", sgd_in_refs, make_args(MLP, donate=True), BATCH),
    case("by_layer", by_layer, LAYER, LAYER, make_args(shape(LAYERS, WIDTH, WIDTH))),
)
