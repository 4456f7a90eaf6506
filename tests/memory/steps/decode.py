"""Steps of decoding as public projects write them: CASES."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag.model.case import Arg, Case
from tests.memory.steps.arguments import (
    HEAD,
    HEADS,
    LAYERS,
    VOCABULARY,
    WIDTH,
    feed_forward,
    ids,
    layer,
    llama_shapes,
    make_args,
    mix,
    norm,
    rope,
    shape,
    split_heads,
)

ROWS, LONGEST = 4, 512


def project(own: Any, x: Any, position: Any) -> Any:
    """Returns query, key and value of one token, each [rows, 1, heads, size]."""
    q, k, v = split_heads(norm(x, own["norm_1"]) @ own["qkv"])
    where = jnp.reshape(position, (-1, 1)) * jnp.ones((x.shape[0], 1))
    return rope(q, where), rope(k, where), v


def put(cache: Any, new: Any, position: Any) -> Any:
    return lax.dynamic_update_slice(cache, new, (0, position, 0, 0))


def attend(own: Any, x: Any, q: Any, k: Any, v: Any, position: Any) -> Any:
    mixed = mix(q, k, v, jnp.arange(k.shape[1]) <= position)
    return feed_forward(x + mixed.reshape(x.shape) @ own["out"], own)


def pick(params: Any, x: Any) -> Any:
    return jnp.argmax(norm(x, params["norm"]) @ params["head"], -1)


def own_of(params: Any, number: int) -> Any:
    return jax.tree.map(lambda one: one[number], params["layers"])


def token_listed(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """One token through layers that are written out, each with caches of its own."""
    x, new = params["embedding"][token], []
    for number, (keys, values) in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        new_keys, new_values = put(keys, k, position), put(values, v, position)
        new.append((new_keys, new_values))
        x = attend(own, x, q, new_keys, new_values, position)
    return pick(params, x), new


def token_carried(params: Any, cache: Any, token: Any, position: Any) -> Any:
    """One token through a scan over layers that carries the stacked cache and writes a part of it."""

    def body(carry: Any, own: Any) -> Any:
        x, keys, values, number = carry
        q, k, v = project(own, x, position)
        keys = lax.dynamic_update_slice(keys, k[None], (number, 0, position, 0, 0))
        values = lax.dynamic_update_slice(values, v[None], (number, 0, position, 0, 0))
        x = attend(own, x, q, keys[number], values[number], position)
        return (x, keys, values, number + 1), None

    start = params["embedding"][token], cache["k"], cache["v"], 0
    (x, keys, values, _), _ = lax.scan(body, start, params["layers"])
    return pick(params, x), {"k": keys, "v": values}


def token_stacked(params: Any, cache: Any, token: Any, position: Any) -> Any:
    """One token through a scan over layers that reads the cache as `xs` and returns the new one as `ys`."""

    def body(x: Any, inputs: Any) -> Any:
        own, keys, values = inputs
        q, k, v = project(own, x, position)
        keys, values = put(keys, k, position), put(values, v, position)
        return attend(own, x, q, keys, values, position), (keys, values)

    x, (keys, values) = lax.scan(body, params["embedding"][token], (params["layers"], cache["k"], cache["v"]))
    return pick(params, x), {"k": keys, "v": values}


def by_scan(token: Any) -> Any:
    def generate(params: Any, cache: Any, start: Any, position: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            cache, last, position = carry
            last, cache = token(params, cache, last, position)
            return (cache, last, position + 1), last[:, 0]

        (cache, _, _), tokens = lax.scan(step, (cache, start, position), None, length=16)
        return cache, tokens.T

    return generate


def by_fori(token: Any) -> Any:
    def generate(params: Any, cache: Any, start: Any, tokens: Any) -> Any:
        def step(number: Any, carry: Any) -> Any:
            cache, last, tokens = carry
            last, cache = token(params, cache, last, number)
            return cache, last, lax.dynamic_update_slice(tokens, last, (0, number))

        cache, _, tokens = lax.fori_loop(0, 16, step, (cache, start, tokens))
        return cache, tokens

    return generate


def by_while(token: Any) -> Any:
    def generate(params: Any, cache: Any, start: Any, tokens: Any) -> Any:
        def is_running(carry: Any) -> Any:
            _, last, _, position = carry
            return (position < LONGEST) & jnp.any(last != 2)

        def step(carry: Any) -> Any:
            cache, last, tokens, position = carry
            last, cache = token(params, cache, last, position)
            return cache, last, lax.dynamic_update_slice(tokens, last, (0, position)), position + 1

        cache, _, tokens, position = lax.while_loop(is_running, step, (cache, start, tokens, 0))
        return cache, tokens, position

    return generate


def prefill(params: Any, cache: Any, tokens: Any, slot: Any) -> Any:
    """The keys and values of a prompt go into one row of the cache."""

    def body(x: Any, own: Any) -> Any:
        _, k, v = split_heads(norm(x, own["norm_1"]) @ own["qkv"])
        return layer(x, own), (rope(k, jnp.arange(x.shape[1])), v)

    x, (keys, values) = lax.scan(body, params["embedding"][tokens], params["layers"])
    keys = lax.dynamic_update_slice(cache["k"], keys, (0, slot, 0, 0, 0))
    values = lax.dynamic_update_slice(cache["v"], values, (0, slot, 0, 0, 0))
    return pick(params, x[:, -1:]), {"k": keys, "v": values}


def paged(params: Any, pages: Any, table: Any, lengths: Any, token: Any) -> Any:
    """Pages of keys and values by layer; a table of pages for each row."""
    x, new = params["embedding"][token], []
    page = jnp.take_along_axis(table, (lengths // 16)[:, None], 1)[:, 0]
    for number, (old_keys, old_values) in enumerate(pages):
        own = own_of(params, number)
        q, k, v = project(own, x, lengths)
        keys = old_keys.at[page, lengths % 16].set(k[:, 0])
        values = old_values.at[page, lengths % 16].set(v[:, 0])
        past = [one[table].reshape(ROWS, -1, HEADS, HEAD) for one in (keys, values)]
        mask = (jnp.arange(past[0].shape[1]) <= lengths[:, None])[:, None, None]
        x = feed_forward(x + mix(q, *past, mask).reshape(x.shape) @ own["out"], own)
        new.append((keys, values))
    return pick(params, x), new, lengths + 1


def speculative(params: Any, caches: Any, drafted: Any, position: Any) -> Any:
    """Draft tokens are checked at once; the cache is written by a conditional on whether the first is right."""
    x, new = params["embedding"][drafted], []
    for number, (keys, values) in enumerate(caches):
        own = own_of(params, number)
        q, k, v = split_heads(norm(x, own["norm_1"]) @ own["qkv"])
        where = position + jnp.arange(x.shape[1])
        q, k = rope(q, where), rope(k, where)
        seen = put(keys, k, position), put(values, v, position)
        mixed = mix(q, *seen, jnp.arange(LONGEST) <= where[:, None])
        x = feed_forward(x + mixed.reshape(x.shape) @ own["out"], own)
        new.append((k, v))
    best = pick(params, x)
    is_right = jnp.all(best[:, 0] == drafted[:, 1])

    def accept(caches: Any) -> Any:
        return [(put(ks, k, position), put(vs, v, position)) for (ks, vs), (k, v) in zip(caches, new, strict=True)]

    return best, lax.cond(is_right, accept, lambda caches: caches, caches)


def ring(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """A sliding window: a new key replaces the oldest one."""
    x, new = params["embedding"][token], []
    for number, (old_keys, old_values) in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        place = position % LONGEST
        keys, values = put(old_keys, k, place), put(old_values, v, place)
        mixed = mix(q, keys, values, (jnp.arange(LONGEST) <= place) | (position >= LONGEST))
        x = feed_forward(x + mixed.reshape(x.shape) @ own["out"], own)
        new.append((keys, values))
    return pick(params, x), new


def rolled(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """A sliding window by `jnp.roll`: the new key comes last."""
    x, new = params["embedding"][token], []
    for number, (old_keys, old_values) in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        keys = jnp.roll(old_keys, -1, 1).at[:, -1:].set(k)
        values = jnp.roll(old_values, -1, 1).at[:, -1:].set(v)
        x = attend(own, x, q, keys, values, LONGEST)
        new.append((keys, values))
    return pick(params, x), new


def beams(params: Any, caches: Any, tokens: Any, scores: Any, start: Any) -> Any:
    """Beam search: each step takes the caches of the best beams."""

    def step(position: Any, carry: Any) -> Any:
        caches, tokens, scores = carry
        x, new = params["embedding"][lax.dynamic_slice_in_dim(tokens, position, 1, 1)], []
        for number, (keys, values) in enumerate(caches):
            own = own_of(params, number)
            q, k, v = project(own, x, position)
            new_keys, new_values = put(keys, k, position), put(values, v, position)
            new.append((new_keys, new_values))
            x = attend(own, x, q, new_keys, new_values, position)
        logits = jax.nn.log_softmax(norm(x, params["norm"]) @ params["head"])[:, 0]
        scores, best = lax.top_k((scores[:, None] + logits).reshape(-1), ROWS)
        beam, word = best // VOCABULARY, best % VOCABULARY
        caches = jax.tree.map(lambda one: one[beam], new)
        tokens = lax.dynamic_update_slice(tokens[beam], word[:, None], (0, position + 1))
        return caches, tokens, scores

    return lax.fori_loop(start, start + 8, step, (caches, tokens, scores))


def quantized(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """Keys and values as int8 with a scale for each token and head."""

    def pack(x: Any) -> Any:
        scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127 + 1e-6
        return jnp.round(x / scale).astype(jnp.int8), scale

    x, new = params["embedding"][token], []
    for number, parts in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        cache = [put(old, one, position) for old, one in zip(parts, (*pack(k), *pack(v)), strict=True)]
        x = attend(own, x, q, cache[0] * cache[1], cache[2] * cache[3], position)
        new.append(tuple(cache))
    return pick(params, x), new


def heads_first(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """The cache has the heads before the tokens."""
    x, new = params["embedding"][token], []
    for number, (old_keys, old_values) in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        keys = lax.dynamic_update_slice(old_keys, k.swapaxes(1, 2), (0, 0, position, 0))
        values = lax.dynamic_update_slice(old_values, v.swapaxes(1, 2), (0, 0, position, 0))
        x = attend(own, x, q, keys.swapaxes(1, 2), values.swapaxes(1, 2), position)
        new.append((keys, values))
    return pick(params, x), new


def write_rows(cache: Any, rows: Any, position: Any) -> Any:
    """A Pallas kernel writes the new keys into the cache, which it gets as an aliased operand."""

    def kernel(position: Any, rows: Any, cache: Any, out: Any) -> None:
        del cache
        out[pl.program_id(0), position[0]] = rows[0]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        grid=(cache.shape[0],),
        in_specs=[
            pl.BlockSpec((1,), lambda i: (0,)),
            pl.BlockSpec((1, cache.shape[2]), lambda i: (i, 0)),
            pl.BlockSpec(cache.shape, lambda i: (0, 0, 0)),
        ],
        out_specs=pl.BlockSpec(cache.shape, lambda i: (0, 0, 0)),
        input_output_aliases={2: 0},
        compiler_params=plt.CompilerParams(),
    )(position.reshape(1), rows, cache)


def by_kernel(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """Each layer's keys and values are written by the kernel."""
    x, new = params["embedding"][token], []
    for number, pair in enumerate(caches):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        flat = [write_rows(old, one.reshape(ROWS, WIDTH), position) for old, one in zip(pair, (k, v), strict=True)]
        x = attend(own, x, q, *[one.reshape(ROWS, LONGEST, HEADS, HEAD) for one in flat], position)
        new.append(tuple(flat))
    return pick(params, x), new


def by_refs(params: Any, caches: Any, token: Any, position: Any) -> Any:
    """The caches are Refs inside of the step."""
    refs = [tuple(jax.new_ref(one) for one in pair) for pair in caches]
    x = params["embedding"][token]
    for number, (keys, values) in enumerate(refs):
        own = own_of(params, number)
        q, k, v = project(own, x, position)
        keys[:, position] = k[:, 0]
        values[:, position] = v[:, 0]
        x = attend(own, x, q, keys[...], values[...], position)
    return pick(params, x), [tuple(jax.freeze(one) for one in pair) for pair in refs]


def recurrent(params: Any, states: Any, x: Any) -> Any:
    """The states of a linear attention, for 16 tokens."""

    def step(states: Any, x: Any) -> Any:
        new = []
        for number in range(LAYERS):
            own = own_of(params, number)
            q, k, v = split_heads(norm(x, own["norm_1"]) @ own["qkv"])
            state = 0.99 * states[number] + jnp.einsum("bhk,bhv->bhkv", k, v)
            x = feed_forward(x + jnp.einsum("bhk,bhkv->bhv", q, state).reshape(x.shape) @ own["out"], own)
            new.append(state)
        return new, x

    return lax.scan(step, states, x)


PARAMS = make_args(llama_shapes("bfloat16"))
TOKEN, POSITION = ids(ROWS, 1), Arg(shape=(), dtype="int32")
TOKENS = Arg(shape=(ROWS, LONGEST), dtype="int32", donate=True)
ONE_CACHE = shape(ROWS, LONGEST, HEADS, HEAD, dtype="bfloat16")
LISTED = make_args([(ONE_CACHE, ONE_CACHE)] * LAYERS, donate=True)
STACKED = make_args({name: shape(LAYERS, *ONE_CACHE.shape, dtype="bfloat16") for name in "kv"}, donate=True)
PAGES = make_args([(shape(256, 16, HEADS, HEAD, dtype="bfloat16"),) * 2] * LAYERS, donate=True)
FLAT = make_args([(shape(ROWS, LONGEST, WIDTH, dtype="bfloat16"),) * 2] * LAYERS, donate=True)
FIRST = make_args([(shape(ROWS, HEADS, LONGEST, HEAD, dtype="bfloat16"),) * 2] * LAYERS, donate=True)
PACKED = (
    shape(ROWS, LONGEST, HEADS, HEAD, dtype="int8"),
    shape(ROWS, LONGEST, HEADS, 1, dtype="bfloat16"),
) * 2


def case(name: str, function: Any, *args: Any) -> Case:
    return Case(name=name, function=function, args=args)


CASES = (
    case("one_listed", token_listed, PARAMS, LISTED, TOKEN, POSITION),
    case("one_carried", token_carried, PARAMS, STACKED, TOKEN, POSITION),
    case("one_stacked", token_stacked, PARAMS, STACKED, TOKEN, POSITION),
    case("scan_listed", by_scan(token_listed), PARAMS, LISTED, TOKEN, POSITION),
    case("scan_carried", by_scan(token_carried), PARAMS, STACKED, TOKEN, POSITION),
    case("scan_stacked", by_scan(token_stacked), PARAMS, STACKED, TOKEN, POSITION),
    case("fori_listed", by_fori(token_listed), PARAMS, LISTED, TOKEN, TOKENS),
    case("fori_carried", by_fori(token_carried), PARAMS, STACKED, TOKEN, TOKENS),
    case("while_listed", by_while(token_listed), PARAMS, LISTED, TOKEN, TOKENS),
    case("prefill", prefill, PARAMS, STACKED, ids(1, 128), POSITION),
    case("paged", paged, PARAMS, PAGES, ids(ROWS, 32), ids(ROWS), TOKEN),
    case("speculative", speculative, PARAMS, LISTED, ids(ROWS, 4), POSITION),
    case("ring", ring, PARAMS, LISTED, TOKEN, POSITION),
    case("rolled", rolled, PARAMS, LISTED, TOKEN, POSITION),
    case("beams", beams, PARAMS, LISTED, TOKENS, Arg(shape=(ROWS,), dtype="bfloat16"), POSITION),
    case("quantized", quantized, PARAMS, make_args([PACKED] * LAYERS, donate=True), TOKEN, POSITION),
    case("heads_first", heads_first, PARAMS, FIRST, TOKEN, POSITION),
    case("by_kernel", by_kernel, PARAMS, FLAT, TOKEN, POSITION),
    case("by_refs", by_refs, PARAMS, LISTED, TOKEN, POSITION),
    case(
        "recurrent",
        recurrent,
        PARAMS,
        make_args([shape(ROWS, HEADS, HEAD, HEAD, dtype="bfloat16")] * LAYERS, donate=True),
        Arg(shape=(16, ROWS, WIDTH), dtype="bfloat16"),
    ),
)
