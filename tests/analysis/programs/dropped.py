"""Kernels called for what they overwrite: the program uses their results, but returns nothing that depends on them.

JAX or XLA drops the results, and the kernels with them. The references compute the authors' intent in plain jnp.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from doubling_kernel import W, X, double
from jax import lax

from ligerdiag import Arg, Case

SCALE = Arg(shape=())
CASES: list[Case] = []


@jax.custom_vjp
def total(h):
    return double(h).sum()


total.defvjp(lambda h: (double(h).sum(), h), lambda doubled, g: (g * doubled,))


@jax.custom_vjp
def plain_total(h):
    return h.sum()


plain_total.defvjp(lambda h: (h.sum(), 2 * h), lambda doubled, g: (g * doubled,))


def add(reference: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(name=function.__name__, function=function, args=(X, W), reference=reference))
        return function

    return register


@add(lambda x, w: {"gradient": 2 * x.T @ (x @ w)})
def gradient_without_its_value(x, w):
    return {"gradient": jax.grad(lambda w: total(x @ w))(w)}


def descend(loss, x, w):
    return {"w": lax.fori_loop(0, 3, lambda _, w: w - 0.01 * jax.grad(lambda w: loss(x @ w))(w), w)}


@add(lambda x, w: descend(plain_total, x, w))
def gradients_in_a_loop(x, w):
    return descend(total, x, w)


@add(lambda x, w: {"doubled": 2 * (x @ w)})
def sum_of_the_result(x, w):
    h = x @ w
    double(h).sum()
    return {"doubled": h}


@add(lambda x, w: {"doubled": 8 * (x @ w)})
def a_loop_without_readers(x, w):
    h = x @ w
    lax.fori_loop(0, 3, lambda _, sums: sums + double(h), jnp.zeros(8))
    return {"doubled": h}
