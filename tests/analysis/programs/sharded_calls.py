"""Kernels in a shard_map: on shards of arrays from outside, and on a value that starts out equal on all devices.

`h` outside and its shards inside are one array. The references are the programs without shards, in plain jnp.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from doubling_kernel import double, see
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg, Case

ROWS, WHOLE, W = Arg(shape=(8, 16), partition=("x",)), Arg(shape=(8, 32), partition=("x",)), Arg(shape=(16, 32))
CASES: list[Case] = []


def shards(function, results):
    specs = tuple(P("x") for _ in range(results)) if results > 1 else P("x")
    return jax.shard_map(function, in_specs=(P("x"),), out_specs=specs, check_vma=False)


def add(reference: Callable[..., Any], *args: Arg) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(name=function.__name__, function=function, args=args, reference=reference, mesh={"x": 2}))
        return function

    return register


@jax.custom_vjp
def total(h):
    return shards(double, 1)(h).sum()


total.defvjp(lambda h: (shards(double, 1)(h).sum(), h), lambda doubled, g: (g * doubled,))


@jax.custom_vjp
def plain_total(h):
    return h.sum()


plain_total.defvjp(lambda h: (h.sum(), 2 * h), lambda doubled, g: (g * doubled,))


def linear(loss, x, w):
    value, dw = jax.value_and_grad(lambda w: loss(x @ w))(w)
    return {"loss": value, "w": dw}


def activated(loss, x, w):
    return linear(lambda h: loss(30 * jnp.tanh(h / 30)), x, w)


def checkpointed(loss, x, w):
    value, dw = jax.value_and_grad(jax.checkpoint(lambda w: loss(jnp.sin(x @ w))))(w)
    return {"loss": value, "w": dw}


@add(lambda x, w: checkpointed(plain_total, x, w), ROWS, W)
def residual_that_is_computed_again(x, w):
    return checkpointed(total, x, w)


@add(lambda x, w: linear(plain_total, x, w), ROWS, W)
def residual_of_a_sharded_kernel(x, w):
    return linear(total, x, w)


@add(lambda x, w: activated(plain_total, x, w), ROWS, W)
def residual_of_an_activation(x, w):
    return activated(total, x, w)


@add(lambda x: {"x": 2 * x, "sums": x.sum(1)}, WHOLE)
def argument_handed_through(x):
    x, sums = shards(lambda x: (x, double(x)), 2)(x)
    return {"x": x, "sums": sums}


@add(lambda x: {"scaled": 2 * x * jnp.sign(1 + x.sum(1, keepdims=True) ** 2), "ones": jnp.full((8, 32), 16.0)}, WHOLE)
def same_on_all_devices(x):
    def local(x):
        ones = jnp.ones_like(x)
        some = double(ones)
        ones = see(ones, some) / 4
        return see(x, jnp.sign(1 + double(x) ** 2)), ones

    scaled, ones = shards(local, 2)(x)
    return {"scaled": scaled, "ones": ones}
