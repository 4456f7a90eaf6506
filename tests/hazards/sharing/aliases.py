"""Two operands of a kernel declared as the same output, which makes XLA put one value over the other."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case

P = plt.CompilerParams(num_warps=1)


def add_kernel(*refs):
    *given, o = refs
    total = given[0][...]
    for one in given[1:]:
        total = total - one[...]
    o[...] = total


def two_kernel(a, b, o, q):
    t, u = a[...], b[...]
    o[...] = t + u
    q[...] = t - u


def call(aliases, *args, kernel=add_kernel, outs=1):
    s = jax.ShapeDtypeStruct(args[0].shape, args[0].dtype)
    return pl.pallas_call(
        kernel, out_shape=s if outs == 1 else (s,) * outs, input_output_aliases=aliases, compiler_params=P
    )(*args)


def two(a, b):
    return call({0: 0, 1: 0}, jnp.tanh(a), jnp.sin(b))


def three(a, b):
    return call({0: 0, 1: 0, 2: 0}, jnp.tanh(a), jnp.sin(b), jnp.cos(a))


def given(a, b):
    return call({0: 0, 1: 0}, a, b)


def one_given(a, b):
    return call({0: 0, 1: 0}, jnp.tanh(a), b), b + 1


def twice(a, b):
    t = jnp.tanh(a)
    return call({0: 0, 1: 0}, t, t), b * 2


def second(a, b):
    return call({0: 1, 1: 1}, jnp.tanh(a), jnp.sin(b), kernel=two_kernel, outs=2)


def crossed(a, b):
    return call({0: 1, 1: 0}, jnp.tanh(a), jnp.sin(b), kernel=two_kernel, outs=2)


def right(a, b):
    return call({0: 0}, jnp.tanh(a), jnp.sin(b)), jnp.cos(a)


def later(a, b):
    t = jnp.tanh(a)
    s = jnp.sin(b)
    return call({0: 0, 1: 0}, t, s), t * 3, s.sum()


def scanned(a, b):
    def body(c, x):
        c = call({0: 0, 1: 0}, jnp.tanh(c), x)
        return c, c.sum()

    return jax.lax.scan(body, a, jnp.stack([b, b + 1, jnp.sin(b)]))


def chosen(a, b):
    return jax.lax.cond(
        a.sum() > 0, lambda a, b: call({0: 0, 1: 0}, jnp.tanh(a), jnp.sin(b)), lambda a, b: a - b, a, b
    ), a * 2


def jitted(a, b):
    return jax.jit(two)(jnp.cos(a), b * 2).sum()


def products(a, b):
    a, b = a.reshape(16, 16), b.reshape(16, 16)
    return call({0: 0, 1: 0}, a @ b, b @ a)


A = (Arg(shape=(256,)), Arg(shape=(256,)))
H = (Arg(shape=(256,), dtype="bfloat16"), Arg(shape=(256,), dtype="bfloat16"))
FS = (two, three, given, one_given, twice, second, crossed, right, later, scanned, chosen, jitted, products)
CASES = (*(Case(name=f.__name__, function=f, args=A) for f in FS), Case(name="two-bf16", function=two, args=H))
