"""Refs of equal values, whose kernel XLA fuses with the slice that it reads: two results in the same memory."""

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case

N = 128


@triton.jit
def pair(x_ptr, a_ptr, b_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(a_ptr + i, x + 1.0)
    tl.store(b_ptr + i, 2.0 * x)


@triton.jit
def gather_add(x_ptr, a_ptr, b_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(a_ptr + i, tl.load(a_ptr + i) + x)
    tl.store(b_ptr + i, tl.load(b_ptr + i) - x)


@triton.jit
def triple(x_ptr, a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(a_ptr + i, x + 1.0)
    tl.store(b_ptr + i, 2.0 * x)
    tl.store(c_ptr + i, x * x)


def call(x, *starts, kernel=pair):
    refs = [jax.new_ref(s) for s in starts]
    jt.triton_call(x, *refs, kernel=kernel, out_type=(), grid=1, N=N)
    return tuple(r[...] for r in refs)


def Z():
    return jnp.zeros((N,))


def over(body, loop="scan"):
    def f(xs, w):
        if loop == "scan":
            c, s = jax.lax.scan(lambda c, x: body(c, x, w), jnp.zeros(N), xs)
            return {"c": c, "s": s}
        if loop == "map":
            return jax.lax.map(lambda x: body(jnp.zeros(N), x, w), xs)

        def step(i, c):
            return body(c, xs[i], w)[0]

        return {"c": jax.lax.fori_loop(0, 3, step, jnp.zeros(N))}

    return f


def zeros(c, x, w):
    a, b = call(x, Z(), Z())
    return c + a * w - jnp.sin(b), (a.sum(), b.sum())


def ones(c, x, w):
    a, b = call(x, jnp.ones(N), jnp.ones(N), kernel=gather_add)
    return c + a * w - jnp.sin(b), (a, b)


def unlike(c, x, w):
    a, b = call(x, Z(), jnp.ones(N))
    return c + a * w - jnp.sin(b), (a.sum(), b.sum())


def carried(c, x, w):
    a, b = call(x, c, c, kernel=gather_add)
    return a * w - b, b.sum()


def only_one(c, x, w):
    a, _ = call(x, Z(), Z())
    return c + a * w, a.sum()


def only_last(c, x, w):
    _, b = call(x, Z(), Z())
    return c + b * w, b.sum()


def three(c, x, w):
    a, b, d = call(x, Z(), Z(), Z(), kernel=triple)
    return c + a * w - jnp.sin(b) * d, (a.sum(), b.sum(), d.sum())


def stacked(c, x, w):
    a, b = call(x, Z(), Z())
    return c, (a, b)


def sum_first(c, x, w):
    a, b = call(x, Z(), Z(), kernel=gather_add)
    return c + a, (b * 2).sum()


def summed(c, x, w):
    a, b = call(jnp.cos(x), Z(), Z())
    return c + a - b, b.max()


def halves(xs, w):
    outs = [call(xs[i], Z(), Z()) for i in range(3)]
    return {"a": sum(o[0] for o in outs), "b": sum(o[1].sum() for o in outs), "w": w * 2}


A = (Arg(shape=(3, N)), Arg(shape=(N,)))
CASES = (
    *(
        Case(name=f.__name__, function=over(f), args=A)
        for f in (zeros, ones, unlike, carried, only_one, only_last, three, stacked, sum_first, summed)
    ),
    Case(name="zeros-map", function=over(zeros, "map"), args=A),
    Case(name="zeros-fori", function=over(zeros, "fori"), args=A),
    Case(name="halves", function=halves, args=A),
)
