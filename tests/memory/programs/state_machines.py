"""Models and simulations that keep several arrays, and write to some of them in each call."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


class Replay(NamedTuple):
    observations: Any
    rewards: Any
    size: Any


def push(replay, observation, reward):
    at = replay.size % replay.rewards.shape[0]
    return Replay(replay.observations.at[at].set(observation), replay.rewards.at[at].set(reward), replay.size + 1)


def push_batch(replay, observations, rewards):
    return lax.fori_loop(0, 8, lambda i, r: push(r, observations[i], rewards[i]), replay)


def push_and_sample(replay, observation, reward, picks):
    replay = push(replay, observation, reward)
    return replay, replay.observations[picks]


def sample_then_push(replay, observation, reward, picks):
    return replay.observations[picks], push(replay, observation, reward)


def push_if_novel(replay, observation, reward):
    novel = jnp.abs(replay.observations - observation).sum(-1).min() > 0.1
    return lax.cond(novel, lambda r: push(r, observation, reward), lambda r: r, replay)


def renormalised_push(replay, observation, reward):
    """The old observations are centred before the push."""
    centred = replay._replace(observations=replay.observations - replay.observations.mean(0))
    return push(centred, observation, reward)


def priorities(tree, at, value):
    """A sum tree: each level is updated in turn."""

    def level(_, state):
        tree, at = state
        at = at // 2
        return tree.at[at].set(tree[2 * at] + tree[2 * at + 1]), at

    return lax.fori_loop(0, 10, level, (tree.at[at].set(value), at))[0]


def particle_resample(particles, weights):
    picks = jnp.searchsorted(jnp.cumsum(weights), jnp.linspace(0, 1, weights.shape[0]))
    return particles[picks]


def particle_move(particles, noise):
    return particles + 0.1 * noise


def cellular(field, steps):
    def unfinished(s):
        return s[1] < steps

    def step(s):
        field, n = s
        left, right = jnp.roll(field, 1, 1), jnp.roll(field, -1, 1)
        return left ^ (field | right), n + 1

    return lax.while_loop(unfinished, step, (field, 0))[0]


def boundary_only(field):
    def step(field, _):
        return field.at[0].set(field[1]).at[-1].set(field[-2]), None

    return lax.scan(step, field, None, length=5)[0]


def predictor_corrector(y, history):
    """Shifts a history of four derivatives."""

    def step(state, _):
        y, history = state
        f = jnp.sin(y)
        history = jnp.roll(history, 1, axis=0).at[0].set(f)
        return (y + 0.01 * history.mean(0), history), None

    return lax.scan(step, (y, history), None, length=8)[0]


def page_table_free(pages, free, at):
    """Moves one page to the end of the list."""
    page = lax.dynamic_slice_in_dim(pages, at, 1)
    last = lax.dynamic_slice_in_dim(pages, free - 1, 1)
    pages = lax.dynamic_update_slice_in_dim(pages, last, at, 0)
    return lax.dynamic_update_slice_in_dim(pages, page, free - 1, 0), free - 1


def paged_copy(pages, source, target):
    return pages.at[target].set(pages[source])


def speculative(cache, drafts, accepted):
    """Writes all drafts, and keeps as many as were accepted."""
    new = lax.dynamic_update_slice(cache, drafts, (64, 0))
    return jnp.where(jnp.arange(cache.shape[0])[:, None] < 64 + accepted, new, cache)


def rollback(cache, drafts, accepted):
    new = lax.dynamic_update_slice(cache, drafts, (64, 0))
    return lax.cond(accepted > 0, lambda: new, lambda: cache)


def slot_cache(cache, keys, slots):
    return {name: cache[name].at[slots].set(keys[name]) for name in cache}


def quantile_ema(sketch, batch):
    return 0.99 * sketch + 0.01 * jnp.quantile(batch, jnp.linspace(0, 1, sketch.shape[0]), axis=0)


def mixture_of_experts(buffer, tokens, expert):
    """Dispatches tokens to slots of a buffer, and combines them again."""
    one_hot = jax.nn.one_hot(expert, buffer.shape[0], dtype=jnp.int32)
    place = (jnp.cumsum(one_hot, axis=0) * one_hot).sum(-1) - 1
    filled = buffer.at[expert, place].set(tokens, mode="drop")
    return filled, filled[expert, place]


def two_tables(a, b, ids):
    """b gets rows of a, and a gets rows of b."""
    return a.at[ids].set(b[ids]), b.at[ids].set(a[ids])


def gather_and_clear(table, ids):
    return table[ids], table.at[ids].set(0)


def history_of_two(a, b, row):
    """a becomes the old b, and b is new."""
    return b, b.at[0].add(row) + a


def accumulate_in_int8(total, parts):
    return lax.fori_loop(0, parts.shape[0], lambda i, t: t + parts[i], total)


def trapezoid(y):
    def step(y, dt):
        half = y + 0.5 * dt * jnp.tanh(y)
        return y + dt * jnp.tanh(half), half[0, 0]

    return lax.scan(step, y, jnp.linspace(0, 1, 8))


REPLAY = Replay(own(4096, 64), own(4096), own(dtype="int32"))
CASES = (
    Case(name="push_one", function=push, args=(REPLAY, lend(64), lend())),
    Case(name="push_batch", function=push_batch, args=(REPLAY, lend(8, 64), lend(8))),
    Case(name="push_and_sample", function=push_and_sample, args=(REPLAY, lend(64), lend(), lend(32, dtype="int32"))),
    Case(name="sample_then_push", function=sample_then_push, args=(REPLAY, lend(64), lend(), lend(32, dtype="int32"))),
    Case(name="push_if_novel", function=push_if_novel, args=(REPLAY, lend(64), lend())),
    Case(name="renormalised_push", function=renormalised_push, args=(REPLAY, lend(64), lend())),
    Case(name="priorities", function=priorities, args=(own(1 << 17), lend(dtype="int32"), lend())),
    Case(name="particle_resample", function=particle_resample, args=(own(8192, 16), lend(8192))),
    Case(name="particle_move", function=particle_move, args=(own(8192, 16), lend(8192, 16))),
    Case(name="cellular", function=cellular, args=(own(512, 512, dtype="bool"), lend(dtype="int32"))),
    Case(name="boundary_only", function=boundary_only, args=(own(512, 512),)),
    Case(name="predictor_corrector", function=predictor_corrector, args=(own(256, 128), own(4, 256, 128))),
    Case(
        name="page_table_free",
        function=page_table_free,
        args=(own(256, 2048), lend(dtype="int32"), lend(dtype="int32")),
    ),
    Case(name="paged_copy", function=paged_copy, args=(own(256, 2048), lend(8, dtype="int32"), lend(8, dtype="int32"))),
    Case(name="speculative", function=speculative, args=(own(1024, 256), lend(8, 256), lend(dtype="int32"))),
    Case(name="rollback", function=rollback, args=(own(1024, 256), lend(8, 256), lend(dtype="int32"))),
    Case(
        name="slot_cache",
        function=slot_cache,
        args=(
            {"k": own(512, 256, dtype="bfloat16"), "v": own(512, 256, dtype="bfloat16")},
            {"k": lend(4, 256, dtype="bfloat16"), "v": lend(4, 256, dtype="bfloat16")},
            lend(4, dtype="int32"),
        ),
    ),
    Case(name="quantile_ema", function=quantile_ema, args=(own(64, 512), lend(256, 512))),
    Case(
        name="mixture_of_experts",
        function=mixture_of_experts,
        args=(own(8, 64, 256), lend(256, 256), lend(256, dtype="int32")),
    ),
    Case(name="two_tables", function=two_tables, args=(own(1024, 256), own(1024, 256), lend(32, dtype="int32"))),
    Case(name="gather_and_clear", function=gather_and_clear, args=(own(1024, 256), lend(32, dtype="int32"))),
    Case(name="history_of_two", function=history_of_two, args=(own(512, 256), own(512, 256), lend(256))),
    Case(
        name="accumulate_in_int8",
        function=accumulate_in_int8,
        args=(own(1024, 512, dtype="int8"), lend(4, 1024, 512, dtype="int8")),
    ),
    Case(name="trapezoid", function=trapezoid, args=(own(512, 256),)),
)
