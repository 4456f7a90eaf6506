"""Kernels that write a Ref (jax-triton 0.4 and later) in loops that are differentiated: JAX moves some of the reads.

Each form computes sin, or a function of it, through a Ref that a kernel writes; the references do without a Ref.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case

N = 128
TABLE = jnp.linspace(1, 2, N)


@triton.jit
def sine_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.sin(tl.load(x_ptr + i)))


@triton.jit
def add_sine_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(o_ptr + i) + tl.sin(tl.load(x_ptr + i)))


def put(ref, x):
    jt.triton_call(x, ref, kernel=sine_kernel, out_type=(), grid=1, N=N)
    return ref


def add(ref, x):
    jt.triton_call(x, ref, kernel=add_sine_kernel, out_type=(), grid=1, N=N)
    return ref


def zeros(x):
    return put(jax.new_ref(jnp.zeros(N)), x)[...]


def ones(x):
    return add(jax.new_ref(jnp.ones(N)), x)[...] - 1


def a_constant(x):
    return add(jax.new_ref(TABLE), x)[...] - TABLE


def a_broadcast(x):
    return add(jax.new_ref(jnp.broadcast_to(jnp.float32(3), (N,))), x)[...] - 3


def in_slices(x):
    ref = put(jax.new_ref(jnp.zeros(N)), x)
    return jnp.concatenate([ref[:64], ref[64:]])


def before_and_after(x):
    ref = jax.new_ref(jnp.zeros(N))
    before = ref[...]
    return before + put(ref, x)[...]


def before_only(x):
    ref = jax.new_ref(jnp.zeros(N))
    before = ref[...]
    put(ref, x)
    return before + jnp.sin(x)


def by_two_kernels(x):
    return add(add(jax.new_ref(jnp.zeros(N)), x), x)[...] / 2


def two_refs(x):
    moved, stays = put(jax.new_ref(jnp.zeros(N)), x), put(jax.new_ref(0 * x), x)
    return (moved[...] + stays[...]) / 2


@jax.jit
def helper(x, ref):
    put(ref, x)


def by_a_helper(x):
    ref = jax.new_ref(jnp.zeros(N))
    helper(x, ref)
    return ref[...]


def by_a_loop(x):
    ref = jax.new_ref(jnp.zeros(N))

    def step(i, none):
        put(ref, x * (i + 1) / 2)
        return none

    jax.lax.fori_loop(0, 2, step, None)
    return ref[...]


def by_a_helper_in_the_iteration(x):
    ref = jax.new_ref(0 * x)
    helper(x, ref)
    return ref[...]


def the_iteration(x):
    return put(jax.new_ref(x), x)[...]


def zeros_of_the_iteration(x):
    return add(jax.new_ref(0 * x), x)[...]


def frozen_of_the_iteration(x):
    return jax.freeze(add(jax.new_ref(0 * x), x))


def an_output(x):
    return jt.triton_call(x, kernel=sine_kernel, out_type=jax.ShapeDtypeStruct((N,), "float32"), grid=1, N=N)


def read_in_the_iteration(x):
    return put(jax.new_ref(jnp.zeros(N)), x)[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def added_to_by_all_iterations(x):
    return add(jax.new_ref(jnp.zeros(N)), x)[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def added_to_by_a_helper(x):
    ref = jax.new_ref(jnp.zeros(N))
    adding_helper(x, ref)
    return ref[(x[0] > 1e9).astype(int)] * jnp.ones(N)


@jax.jit
def adding_helper(x, ref):
    add(ref, x)


def frozen_zeros(x):
    return jax.freeze(put(jax.new_ref(jnp.zeros(N)), x))


def jitted_zeros(x):
    return jax.jit(zeros)(x)


def with_rule(form: Callable[..., Any]) -> Callable[..., Any]:
    function = jax.custom_vjp(form)
    function.defvjp(lambda x: (form(x), x), lambda x, g: (g * jnp.cos(x),))
    return function


def scan(function, xs, w):
    return jax.lax.scan(lambda c, x: (c + function(x * w), None), jnp.zeros(N), xs)[0]


def carried(function, xs, w):
    return jax.lax.scan(lambda c, x: (function(c + x * w), None), jnp.zeros(N), xs)[0]


def stacked(function, xs, w):
    return jax.lax.scan(lambda c, x: (c, function(x * w)), 0.0, xs)[1].sum(0)


def mapped(function, xs, w):
    return jax.lax.map(lambda x: function(x * w), xs).sum(0)


def fori_loop(function, xs, w):
    return jax.lax.fori_loop(0, 3, lambda i, c: c + function(xs[i] * w), jnp.zeros(N))


def nested(function, xs, w):
    def row(c, x):
        return jax.lax.scan(lambda c, k: (c + function(k * x * w) / 2, None), c, jnp.ones(2))[0], None

    return jax.lax.scan(row, jnp.zeros(N), xs)[0]


def under_a_condition(function, xs, w):
    def body(c, x):
        return c + jax.lax.cond(x[0] > -1e9, function, lambda y: 0 * y, x * w), None

    return jax.lax.scan(body, jnp.zeros(N), xs)[0]


def checkpointed(function, xs, w):
    return jax.lax.scan(jax.checkpoint(lambda c, x: (c + function(x * w), None)), jnp.zeros(N), xs)[0]


def in_a_checkpoint(function, xs, w):
    return jax.checkpoint(lambda xs, w: scan(function, xs, w))(xs, w)


def unrolled(function, xs, w):
    return function(xs[0] * w) + function(xs[1] * w)


def differentiated(function, loop, xs, w):
    value, gradient = jax.value_and_grad(lambda w: (loop(function, xs, w) ** 2).sum())(w)
    return {"value": value, "gradient": gradient}


def forward(function, loop, xs, w):
    return {"value": (loop(function, xs, w) ** 2).sum()}


def value_alone(function, loop, xs, w):
    return {"value": differentiated(function, loop, xs, w)["value"]}


def first(x):
    return jnp.sin(x)[(x[0] > 1e9).astype(int)] * jnp.ones(N)


def share(form: Callable[..., Any]) -> Case:
    """The read depends on the iteration: JAX moves only the Ref, and all iterations share it."""
    return Case(
        name=f"shared-{form.__name__}",
        function=lambda xs, w: value_alone(with_rule(form), scan, xs, w),
        reference=lambda xs, w: value_alone(first, scan, xs, w),
        args=(Arg(shape=(3, N)), Arg(shape=(N,))),
    )


def make(loop: Callable[..., Any], form: Callable[..., Any], run: Callable[..., Any] = differentiated) -> Case:
    return Case(
        name=f"{'forward_' if run is forward else ''}{loop.__name__}-{form.__name__}",
        function=lambda xs, w: run(with_rule(form), loop, xs, w),
        reference=lambda xs, w: run(jnp.sin, loop, xs, w),
        args=(Arg(shape=(3, N)), Arg(shape=(N,))),
    )


MOVED = (
    zeros,
    ones,
    a_constant,
    a_broadcast,
    in_slices,
    before_and_after,
    by_two_kernels,
    two_refs,
    by_a_helper,
    by_a_loop,
)
RIGHT = (
    before_only,
    the_iteration,
    by_a_helper_in_the_iteration,
    zeros_of_the_iteration,
    frozen_of_the_iteration,
    an_output,
)
REFUSED = (frozen_zeros, jitted_zeros)
LOOPS = (carried, stacked, mapped, fori_loop, nested, under_a_condition, checkpointed, in_a_checkpoint, unrolled)

CASES = (
    *(make(scan, form) for form in (*MOVED, *RIGHT, *REFUSED)),
    *(make(loop, form) for loop in LOOPS for form in (zeros, zeros_of_the_iteration)),
    *(make(scan, form, forward) for form in (zeros, ones, in_slices)),
    share(read_in_the_iteration),
    share(added_to_by_all_iterations),
    share(added_to_by_a_helper),
)
