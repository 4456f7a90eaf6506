"""Refs in differentiated loops beside Pallas calls with aliases, under derivatives besides `grad`, and outside loops."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case

N = 128


def by_pallas(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...])

    out = jax.ShapeDtypeStruct((N,), jnp.float32)
    return pl.pallas_call(kernel, out_shape=out, input_output_aliases={0: 0}, compiler_params=plt.CompilerParams())(x)


def in_zeros(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[...] = jnp.sin(x)
    return ref[...]


def pallas_in_zeros(x):
    ref = jax.new_ref(jnp.zeros(N))
    ref[...] = by_pallas(x)
    return ref[...]


def pallas_in_the_iteration(x):
    ref = jax.new_ref(0 * x)
    ref[...] = by_pallas(x)
    return ref[...]


def with_rule(form):
    function = jax.custom_vjp(form)
    function.defvjp(lambda x: (form(x), x), lambda x, g: (g * jnp.cos(x),))
    return function


def with_jvp_rule(form):
    function = jax.custom_jvp(form)
    function.defjvp(lambda primals, tangents: (form(primals[0]), jnp.cos(primals[0]) * tangents[0]))
    return function


def scan(function, wrap=lambda body: body):
    def loss(xs, w):
        return (jax.lax.scan(wrap(lambda c, x: (c + function(x * w), None)), jnp.zeros(N), xs)[0] ** 2).sum()

    return loss


def gradient(loss):
    return lambda xs, w: dict(zip(("value", "d"), jax.value_and_grad(loss, 1)(xs, w), strict=True))


def second_gradient(loss):
    return lambda xs, w: {"d": jax.grad(lambda w: (jax.grad(loss, 1)(xs, w) ** 2).sum())(w)}


def tangent(loss):
    return lambda xs, w: dict(zip(("value", "d"), jax.jvp(lambda w: loss(xs, w), (w,), (w,)), strict=True))


def linear(loss):
    def run(xs, w):
        value, function = jax.linearize(lambda w: loss(xs, w), w)
        return {"value": value, "d": function(w)}

    return run


def outside_of_the_loop(xs, w):
    def loss(w):
        ref = jax.new_ref(w)

        def body(c, x):
            ref[...] = ref[...] + jnp.sin(x * w)
            return c, None

        jax.lax.scan(body, 0.0, xs)
        return (ref[...] ** 2).sum()

    value, d = jax.value_and_grad(loss)(w)
    return {"value": value, "d": d}


def without_a_ref(xs, w):
    value, d = jax.value_and_grad(lambda w: ((w + sum(jnp.sin(x * w) for x in xs)) ** 2).sum())(w)
    return {"value": value, "d": d}


PROGRAMS = {
    "pallas": (gradient(scan(with_rule(by_pallas))), gradient(scan(jnp.sin))),
    "pallas_checkpointed": (gradient(scan(with_rule(by_pallas), jax.checkpoint)), gradient(scan(jnp.sin))),
    "pallas_in_the_iteration": (gradient(scan(with_rule(pallas_in_the_iteration))), gradient(scan(jnp.sin))),
    "pallas_in_zeros": (gradient(scan(with_rule(pallas_in_zeros))), gradient(scan(jnp.sin))),
    "twice": (second_gradient(scan(in_zeros)), second_gradient(scan(jnp.sin))),
    "tangent": (tangent(scan(in_zeros)), tangent(scan(jnp.sin))),
    "linear": (linear(scan(in_zeros)), linear(scan(jnp.sin))),
    "jvp_rule": (gradient(scan(with_jvp_rule(in_zeros))), gradient(scan(jnp.sin))),
    "vjp_rule": (gradient(scan(with_rule(in_zeros))), gradient(scan(jnp.sin))),
    "outside": (outside_of_the_loop, without_a_ref),
}
CASES = [
    Case(name=name, function=function, reference=reference, args=(Arg(shape=(3, N)), Arg(shape=(N,))))
    for name, (function, reference) in PROGRAMS.items()
]
