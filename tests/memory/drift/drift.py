"""Programs that jax 0.10.0 copies for, and 0.11.2 does not: CASES."""

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag.model.case import Arg, Case

ROWS, LONGEST, HEADS, HEAD = 2, 1024, 8, 64


def set_first(chosen, x):
    return lax.cond(chosen, lambda x: x.at[0].set(1.0), lambda x: x, x)


def attend(q, k, v, length):
    scores = jnp.einsum("bhd,bshd->bhs", q, k)
    scores = jnp.where(jnp.arange(k.shape[1])[None, None, :] < length, scores, -1e30)
    return jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores), v)


def decode(cache, q):
    def step(i, carry):
        cache, q = carry
        cache = {"k": cache["k"].at[:, i].set(q), "v": cache["v"].at[:, i].set(2 * q)}
        return cache, attend(q, cache["k"], cache["v"], i + 1)

    return lax.fori_loop(0, 16, step, (cache, q))


CASES = (
    Case(name="set_first", function=set_first, args=(Arg(shape=(), dtype="bool"), Arg(shape=(1 << 24,), donate=True))),
    Case(
        name="decode",
        function=decode,
        args=(
            {name: Arg(shape=(ROWS, LONGEST, HEADS, HEAD), donate=True) for name in "kv"},
            Arg(shape=(ROWS, HEADS, HEAD)),
        ),
    ),
)
