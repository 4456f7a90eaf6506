"""Calls of one kernel that share a line or a function: JAX drops some of them, and only those are missing.

`double` returns the sums of the rows and doubles the rows. The references compute the authors' intent in plain jnp.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from doubling_kernel import double

from ligerdiag import Arg, Case

X = Arg(shape=(8, 32))
CASES: list[Case] = []


def add(reference: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(name=function.__name__, function=function, args=(X, X), reference=reference))
        return function

    return register


@add(lambda x, y: {"s": jnp.sin(x).sum(1), "h": 2 * jnp.sin(x), "k": 2 * jnp.cos(y)})
def one_of_a_line(x, y):
    h, k = jnp.sin(x), jnp.cos(y)
    s, _ = double(h), double(k)
    return {"s": s, "h": h, "k": k}


@add(lambda x, y: {"s": jnp.sin(x).sum(1), "t": jnp.cos(y).sum(1), "h": 2 * jnp.sin(x), "k": 2 * jnp.cos(y)})
def both_of_a_line(x, y):
    h, k = jnp.sin(x), jnp.cos(y)
    s, t = double(h), double(k)
    return {"s": s, "t": t, "h": h, "k": k}


@add(lambda x, y: {"s": jnp.sin(x).sum(1), "h": 2 * jnp.sin(x)})
def nobody_reads_the_other(x, y):
    h, k = jnp.sin(x), jnp.cos(y)
    s, _ = double(h), double(k)
    return {"s": s, "h": h}


def keep(h):
    return double(h)


def forget(h):
    double(h)
    return h


@add(lambda x, y: {"s": jnp.sin(x).sum(1), "k": 2 * jnp.cos(y)})
def two_callers(x, y):
    return {"s": keep(jnp.sin(x)), "k": forget(jnp.cos(y))}


@add(lambda x, y: {"s": jnp.sin(x).sum(1), "k": 2 * jnp.cos(y)})
def called_twice_as_one_function(x, y):
    function = jax.jit(double)
    h, k = jnp.sin(x), jnp.cos(y)
    s = function(h)
    function(k)
    return {"s": s, "k": k}


@jax.custom_vjp
def total(a, b):
    return (double(a) + double(b)).sum()


def _forward(a, b):
    s, t = double(a), double(b)
    return (s + t).sum(), (a, b)


@jax.custom_vjp
def plain_total(a, b):
    return (a + b).sum()


total.defvjp(_forward, lambda kept, g: (g * kept[0], g * kept[1]))
plain_total.defvjp(lambda a, b: ((a + b).sum(), (2 * a, 2 * b)), lambda kept, g: (g * kept[0], g * kept[1]))


def differentiate(total, x, y):
    def loss(x, y):
        again = jax.checkpoint(lambda x, y: total(jnp.sin(x), jnp.cos(y)))
        return again(x, y) + total(jnp.tanh(x), jnp.tanh(y))

    value, gradients = jax.value_and_grad(loss, (0, 1))(x, y)
    return {"loss": value, "gradients": gradients}


@add(lambda x, y: differentiate(plain_total, x, y))
def both_computed_again(x, y):
    return differentiate(total, x, y)
