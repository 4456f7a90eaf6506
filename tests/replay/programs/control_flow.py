"""Loops, branches and scans."""

from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.model.case import Arg, Draw
from tests.replay.programs.arguments import draw_ids, draw_normal, make_case


def reversed_scan(x: Any) -> Any:
    return jax.lax.scan(lambda c, v: (0.9 * c + jnp.tanh(v), c), jnp.zeros(x.shape[1:]), x, reverse=True)


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


def linear_recurrence(a: Any, b: Any) -> Any:
    return jax.lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (jnp.tanh(a), b))


CASES = (
    make_case("reversed_scan", reversed_scan, draw_normal(6, 4, 8)),
    make_case("newton", newton, Arg(shape=(12,), draw=Draw(kind="uniform", seed=3, low=1, high=9))),
    make_case("branches", branches, draw_normal(6, 6), draw_ids(1, high=3)),
    make_case("fori_updates", fori_updates, draw_normal(9, 5)),
    make_case("linear_recurrence", linear_recurrence, draw_normal(17, 4), draw_normal(17, 4, seed=1)),
)
