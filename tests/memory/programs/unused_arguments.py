"""Programs that never read some of their arguments, in the forms in which people write them. JAX drops such an argument
unless `jax.jit` has `keep_unused=True`.
"""

from functools import partial

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case

N = 4096
VECTOR = Arg(shape=(N,))
DONATED = Arg(shape=(N,), donate=True)
IDS = Arg(shape=(N,), dtype="int32")


def add_one(x, scratch):
    return x + 1


def swap_roles(old, new):
    return new * 2


def train_step(state, batch):
    gradient = jnp.cos(state["params"] * batch["x"])
    momentum = 0.9 * state["momentum"] + gradient
    return {"params": state["params"] - 0.1 * momentum, "momentum": momentum}


def sgd_step(params, opt_state, batch):
    gradient = jnp.sin(params * batch)
    return params - 0.1 * gradient, jax.tree.map(jnp.zeros_like, opt_state)


def drop_out(x, key, rate):
    return x * 2 if rate == 0 else x * jax.random.bernoulli(key, 1 - rate, x.shape)


def default_scale(x, y, scale=2.0):
    return y * scale


def spare_bytes(weights, spare):
    return weights, weights - 0.5


def print_first(x, logged):
    jax.debug.callback(lambda value: None, logged[0])
    return x + 1


def call_inner(x, y):
    return jax.jit(lambda a, b: a + 1)(x, y)


def call_inner_that_keeps(x, y):
    return jax.jit(lambda a, b: a + 1, keep_unused=True)(x, y)


def loop(x, y):
    (total, _), _ = jax.lax.scan(lambda carry, _: ((carry[0] + 1, carry[1]), None), (x, y), length=3)
    return total


def choose(x, y):
    return jax.lax.cond(x[0] > 0, lambda a, b: a + 1, lambda a, b: a * 2, x, y)


def multiply_by_zero(x, y):
    return x + 0 * y


def only_shape(x, y):
    return x + jnp.ones_like(y)


def no_input(x):
    return jnp.ones(N)


class Trainer:
    @partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
    def step(self, params, spare):
        return params * 3


STATE = {"params": VECTOR, "momentum": VECTOR}
CASES = [
    Case(name="not_donated", function=add_one, args=(VECTOR, VECTOR)),
    Case(name="scratch", function=jax.jit(add_one, donate_argnums=1), args=(VECTOR, VECTOR)),
    Case(name="old_is_not_read", function=jax.jit(swap_roles, donate_argnums=(0, 1)), args=(VECTOR, VECTOR)),
    Case(
        name="old_is_kept",
        function=jax.jit(swap_roles, donate_argnums=(0, 1), keep_unused=True),
        args=(VECTOR, VECTOR),
    ),
    Case(name="old_is_kept_by_case", function=swap_roles, args=(DONATED, DONATED), keep_unused=True),
    Case(
        name="donated_by_name",
        function=jax.jit(swap_roles, donate_argnames=("old", "new")),
        args=(VECTOR, VECTOR),
    ),
    Case(
        name="labels_of_a_batch",
        function=jax.jit(train_step, donate_argnums=(0, 1)),
        args=(STATE, {"x": VECTOR, "labels": IDS}),
    ),
    Case(
        name="optimizer_state",
        function=jax.jit(sgd_step, donate_argnums=(0, 1)),
        args=(VECTOR, {"mu": VECTOR, "nu": VECTOR, "count": Arg(shape=(), dtype="int32")}, VECTOR),
    ),
    Case(
        name="key_without_dropout",
        function=jax.jit(drop_out, static_argnames="rate", donate_argnums=(0, 1)),
        args=(VECTOR, Arg(shape=(), dtype="key<fry>")),
        kwargs={"rate": 0},
    ),
    Case(name="default", function=jax.jit(default_scale, donate_argnums=(0, 1)), args=(VECTOR, VECTOR)),
    Case(
        name="in_a_partial",
        function=partial(jax.jit(default_scale, donate_argnames="x"), scale=3.0),
        args=(VECTOR, VECTOR),
    ),
    Case(
        name="in_a_partial_that_keeps",
        function=partial(jax.jit(default_scale, donate_argnums=0, keep_unused=True), scale=3.0),
        args=(VECTOR, VECTOR),
    ),
    Case(name="method", function=Trainer().step, args=(VECTOR, VECTOR)),
    Case(name="spare", function=jax.jit(spare_bytes, donate_argnums=(0, 1)), args=(VECTOR, VECTOR)),
    Case(
        name="spare_is_kept",
        function=jax.jit(spare_bytes, donate_argnums=(0, 1), keep_unused=True),
        args=(VECTOR, VECTOR),
    ),
    *(
        Case(name=function.__name__, function=jax.jit(function, donate_argnums=(0, 1)), args=(VECTOR, VECTOR))
        for function in (
            print_first,
            call_inner,
            call_inner_that_keeps,
            loop,
            choose,
            multiply_by_zero,
            only_shape,
        )
    ),
    Case(name="no_input", function=jax.jit(no_input, donate_argnums=0), args=(VECTOR,)),
    Case(
        name="sharded",
        function=swap_roles,
        args=(Arg(shape=(N,), partition=("x",), donate=True), Arg(shape=(N,), partition=("x",), donate=True)),
        mesh={"x": 2},
    ),
    Case(
        name="sharded_no_input",
        function=no_input,
        args=(Arg(shape=(N,), partition=("x",), donate=True),),
        mesh={"x": 2},
    ),
]
