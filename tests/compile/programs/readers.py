"""Tiny programs that read an overwritten value in all kinds of places."""

import doubling
import jax
import jax.numpy as jnp

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(16, 16))
launch = jax.jit(doubling.double)


@jax.jit
def launch_and_square(y):
    return launch(y), y * y


def read_beside(x, w):
    y = x @ w
    before = jnp.exp(y)
    was = doubling.double(y)
    return {"before": before, "was": was, "twice": y + y, "whole": y}


def read_outside(x, w):
    y = x @ w
    was = launch(y)
    return {"was": was, "sine": jnp.sin(y), "cosine": jnp.cos(y)}


def read_at_two_levels(x, w):
    y = x @ w
    was, square = launch_and_square(y)
    return {"was": was, "square": square, "sine": jnp.sin(y)}


def read_between_two_calls(x, w):
    y = x @ w
    first = launch(y)
    middle = jnp.sin(y)
    return {"first": first, "middle": middle, "second": launch(y), "end": jnp.cos(y)}


def run_in_a_branch(x, w):
    y = x @ w
    was = jax.lax.cond(x[0, 0] > 0, doubling.double, lambda y: y + 1, y)
    return {"was": was, "sine": jnp.sin(y)}


def read_in_a_branch(x, w):
    y = x @ w
    was = doubling.double(y)
    return {"was": was, "either": jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, y)}


def run_in_a_loop(x, w):
    def body(carry, _):
        was = doubling.double(carry)
        return carry, jnp.sin(carry) + was

    last, rows = jax.lax.scan(body, x @ w, None, length=3)
    return {"last": last, "rows": rows}


def close_over_in_a_loop(x, w):
    y = x @ w
    before = jnp.tan(y)

    def body(carry, _):
        earlier = jnp.cos(y)
        was = doubling.double(y)
        return carry + earlier * was, None

    total, _ = jax.lax.scan(body, jnp.zeros_like(y), None, length=3)
    return {"before": before, "total": total, "sine": jnp.sin(y)}


def overwrite_integers(x, w):
    del w
    y = (x * 8).astype(jnp.int32)
    was = doubling.double(y)
    return {"was": was, "y": y + 1}


CASES = tuple(
    Case(name=function.__name__, function=function, args=(X, X), about="a tiny program")
    for function in (
        read_beside, read_outside, read_at_two_levels, read_between_two_calls, run_in_a_branch, read_in_a_branch,
        run_in_a_loop, close_over_in_a_loop, overwrite_integers,
    )
)  # fmt: skip
