"""Refs of plain JAX in loops that are differentiated: JAX takes some of them out of the loop and reads them there.

No kernel is called. Each function in `FORMS` computes sin, or a part of it; the reference computes it without a Ref.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case

N = 32


def of_zeros(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[...] = jnp.sin(x)
    return ref[...]


def of_ones(x):
    ref = jax.new_ref(jnp.ones(N))
    ref[...] = jnp.sin(x)
    return ref[...]


def added(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[...] += jnp.sin(x)
    return ref[...]


def by_addupdate(x):
    ref = jax.new_ref(jnp.zeros(N))
    jax.ref.addupdate(ref, ..., jnp.sin(x))
    return ref[...]


def in_part(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[3:9] = jnp.sin(x[3:9])
    return ref[...] + 0 * x


@jax.jit
def store(value, ref):
    ref[...] = value


@jax.jit
def store_both(ref, value, other):
    store(value, ref)
    other[...] = jnp.cos(value)


def by_a_helper(x):
    ref = jax.new_ref(jnp.zeros(N))
    store(jnp.sin(x), ref)
    return ref[...]


@jax.jit
def add_and_read(value, ref):
    ref[...] += value
    return ref[...]


def read_by_the_helper(x):
    return add_and_read(jnp.sin(x), jax.new_ref(jnp.zeros(N)))


def in_parts_and_read_in_the_iteration(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[:9], ref[9:] = jnp.sin(x[:9]), jnp.sin(x[9:])
    return ref[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def by_a_helpers_helper(x):
    moved, stays = jax.new_ref(jnp.zeros(N)), jax.new_ref(0 * x)
    store_both(moved, jnp.sin(x), stays)
    return moved[...] + 0 * stays[...]


def by_a_loop(x):
    ref = jax.new_ref(jnp.zeros(N))

    def row(i, none):
        ref[i] = jnp.sin(x[i])
        return none

    jax.lax.fori_loop(0, N, row, None)
    return ref[...]


def by_a_helper_in_the_iteration(x):
    ref = jax.new_ref(0 * x)
    store(jnp.sin(x), ref)
    return ref[...]


def in_a_jitted_function(x):
    return jax.jit(of_iteration)(x)


def of_iteration(x):
    ref = jax.new_ref(0 * x)
    ref[...] = jnp.sin(x)
    return ref[...]


def read_before_it_is_written(x):
    ref = jax.new_ref(jnp.zeros(N))
    before = ref[...]
    ref[...] = jnp.cos(x)
    return before + jnp.sin(x)


def read_in_the_iteration(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[...] = jnp.sin(x)
    return ref[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def without(x):
    return jnp.sin(x)


def part(x):
    return jnp.zeros(N).at[3:9].set(jnp.sin(x[3:9])) + 0 * x


def first(x):
    return jnp.sin(x)[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def by_scan(function, xs, w):
    return jax.lax.scan(lambda c, x: (c + function(x * w), None), jnp.zeros(N), xs)[0]


def by_map(function, xs, w):
    return jax.lax.map(lambda x: function(x * w), xs).sum(0)


def by_fori_loop(function, xs, w):
    return jax.lax.fori_loop(0, 3, lambda i, c: c + function(xs[i] * w), jnp.zeros(N))


def by_nested_scans(function, xs, w):
    def row(c, x):
        return jax.lax.scan(lambda c, k: (c + function(k * x * w), None), c, jnp.arange(1.0, 3.0))[0], None

    return jax.lax.scan(row, jnp.zeros(N), xs)[0]


def unrolled(function, xs, w):
    return sum(function(x * w) for x in xs)


def differentiated(function, loop, xs, w):
    value, gradient = jax.value_and_grad(lambda w: (loop(function, xs, w) ** 2).sum())(w)
    return {"value": value, "gradient": gradient, "other": xs.sum(0) * w}


def forward(function, loop, xs, w):
    return {"value": (loop(function, xs, w) ** 2).sum()}


PARTS = {in_part: part, read_in_the_iteration: first, in_parts_and_read_in_the_iteration: first}
FORMS = (
    of_zeros, of_ones, added, by_addupdate, in_part, by_a_helper, by_a_helpers_helper, by_a_loop, read_by_the_helper,
    in_parts_and_read_in_the_iteration,
    by_a_helper_in_the_iteration, in_a_jitted_function, of_iteration, read_before_it_is_written, read_in_the_iteration,
    without,
)  # fmt: skip
LOOPS = (by_map, by_fori_loop, by_nested_scans, unrolled)


def make(function: Callable[..., Any], loop: Callable[..., Any], run: Callable[..., Any]) -> Case:
    plain = PARTS.get(function, without)
    return Case(
        name=f"{run.__name__}_{loop.__name__}_{function.__name__}",
        function=lambda xs, w: run(function, loop, xs, w),
        reference=lambda xs, w: run(plain, loop, xs, w),
        args=(Arg(shape=(3, N)), Arg(shape=(N,))),
    )


CASES = (
    *(make(function, by_scan, differentiated) for function in FORMS),
    *(make(function, loop, differentiated) for loop in LOOPS for function in (of_zeros, of_iteration)),
    make(of_zeros, by_scan, forward),
)
