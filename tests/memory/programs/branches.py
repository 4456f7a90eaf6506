"""Conditionals over whole arrays."""

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


FLAG = lend(dtype="bool")
INDEX = lend(dtype="int32")


def maybe_sort(flag, x):
    return lax.cond(flag, jnp.sort, lambda x: x, x)


def maybe_solve(flag, state, w):
    """A dict of which only one entry changes."""

    def project(state):
        return {**state, "x": jnp.tanh(state["x"] @ w)}

    return lax.cond(flag, project, lambda state: state, state)


def skip_nan_step(params, grads):
    """The usual guard of a training step."""
    finite = jnp.all(jnp.isfinite(grads["w"]))
    return lax.cond(
        finite,
        lambda p: jax.tree.map(lambda p, g: p - 0.1 * g, p, grads),
        lambda p: p,
        params,
    )


def clip_if_large(g):
    norm = jnp.linalg.norm(g)
    return lax.cond(norm > 1, lambda g: g / norm, lambda g: g, g)


def pick_of_three(which, a, b, c):
    return lax.switch(which, [lambda a, b, c: a, lambda a, b, c: b, lambda a, b, c: c], a, b, c)


def pick_layer_norm(which, x):
    return lax.switch(
        which,
        [lambda x: x, lambda x: x * 2, lambda x: jnp.cumsum(x, axis=0), lambda x: x.at[0].set(0)],
        x,
    )


def order_pair(a, b):
    return lax.cond(a.sum() > b.sum(), lambda a, b: (b, a), lambda a, b: (a, b), a, b)


def order_pair_in_loop(a, b, flags):
    def step(state, flag):
        a, b = state
        return lax.cond(flag, lambda a, b: (b, a), lambda a, b: (a, b), a, b), None

    return lax.scan(step, (a, b), flags)[0]


def nested_guard(outer, inner, x, w):
    def work(x):
        return lax.cond(inner, lambda x: x @ w, lambda x: x + 1, x)

    return lax.cond(outer, work, lambda x: x, x)


def write_if_room(cache, row, length):
    return lax.cond(
        length < cache.shape[0],
        lambda cache: lax.dynamic_update_index_in_dim(cache, row, length, 0),
        lambda cache: cache,
        cache,
    )


def write_if_room_in_loop(cache, rows, keep):
    def push(i, cache):
        return lax.cond(keep[i], lambda c: c.at[i].set(rows[i]), lambda c: c, cache)

    return lax.fori_loop(0, rows.shape[0], push, cache)


def accept_or_reject(x, proposal, accept):
    """Metropolis: take the proposal or keep the state."""

    def step(x, given):
        move, take = given
        new = x + move
        return lax.cond(take, lambda: new, lambda: x), x.sum()

    return lax.scan(step, x, (proposal, accept))


def relax_sometimes(u):
    def step(u, i):
        return lax.cond(i % 4 == 0, lambda u: jnp.cumsum(u, axis=1) * 0.1, lambda u: u, u), None

    return lax.scan(step, u, jnp.arange(12))[0]


def reset_or_keep(done, state):
    return lax.cond(done, jnp.zeros_like, lambda s: s, state)


def reset_by_where(done, state):
    return jnp.where(done, jnp.zeros_like(state), state)


def target_network(step, online, target):
    """Copy the online weights into the target network from time to time."""
    return online, lax.cond(step % 100 == 0, lambda o, t: o, lambda o, t: t, online, target)


def branch_reads_old(flag, x, y):
    new = lax.cond(flag, lambda x: x.at[1].set(3.0), lambda x: x, x)
    return new, x @ y


def select_kept(flag, a, b):
    return lax.cond(flag, lambda a, b: a, lambda a, b: b, a, b)


CASES = (
    Case(name="maybe_sort", function=maybe_sort, args=(FLAG, own(1 << 18))),
    Case(
        name="maybe_solve",
        function=maybe_solve,
        args=(FLAG, {"x": own(512, 512), "t": own(256, 256)}, lend(512, 512)),
    ),
    Case(
        name="skip_nan_step",
        function=skip_nan_step,
        args=({"w": own(512, 512), "b": own(512)}, {"w": lend(512, 512), "b": lend(512)}),
    ),
    Case(name="clip_if_large", function=clip_if_large, args=(own(512, 512, dtype="bfloat16"),)),
    Case(name="pick_of_three", function=pick_of_three, args=(INDEX, own(512, 512), own(512, 512), own(512, 512))),
    Case(name="pick_layer_norm", function=pick_layer_norm, args=(INDEX, own(512, 512))),
    Case(name="order_pair", function=order_pair, args=(own(256, 512, dtype="int32"), own(256, 512, dtype="int32"))),
    Case(
        name="order_pair_in_loop",
        function=order_pair_in_loop,
        args=(own(256, 512), own(256, 512), lend(8, dtype="bool")),
    ),
    Case(name="nested_guard", function=nested_guard, args=(FLAG, FLAG, own(512, 512), lend(512, 512))),
    Case(name="write_if_room", function=write_if_room, args=(own(512, 512), lend(512), INDEX)),
    Case(
        name="write_if_room_in_loop",
        function=write_if_room_in_loop,
        args=(own(512, 512), lend(16, 512), lend(16, dtype="bool")),
    ),
    Case(
        name="accept_or_reject",
        function=accept_or_reject,
        args=(own(256, 256), lend(8, 256, 256), lend(8, dtype="bool")),
    ),
    Case(name="relax_sometimes", function=relax_sometimes, args=(own(256, 1024),)),
    Case(name="reset_or_keep", function=reset_or_keep, args=(FLAG, own(512, 512))),
    Case(name="reset_by_where", function=reset_by_where, args=(FLAG, own(512, 512))),
    Case(name="target_network", function=target_network, args=(INDEX, own(512, 512), own(512, 512))),
    Case(name="branch_reads_old", function=branch_reads_old, args=(FLAG, own(512, 512), lend(512, 512))),
    Case(name="select_kept", function=select_kept, args=(FLAG, lend(512, 512), lend(512, 512))),
)
