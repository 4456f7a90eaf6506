"""Plain Refs beside kernels in branches, in loops and under recomputation: JAX moves none, and everything is right.

In the derivative of a conditional, each branch returns the residuals of every other one, in one place. The references
compute the same in plain jnp.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

CASES: list[Case] = []
LIKE = jax.ShapeDtypeStruct((32,), jnp.float32)
VECTOR = Arg(shape=(32,))


@triton.jit
def cube_kernel(x_ptr, cube_ptr, spare_ptr, N: tl.constexpr):
    """Overwrites x with the derivative of its cube."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(cube_ptr + at, x * x * x)
    tl.store(x_ptr + at, 3 * x * x)


@triton.jit
def circle_kernel(x_ptr, cosine_ptr, spare_ptr, N: tl.constexpr):
    """Overwrites x with its sine."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(cosine_ptr + at, tl.cos(x))
    tl.store(x_ptr + at, tl.sin(x))


def call(kernel, x):
    return call_in_place(x, written=0, kernel=kernel, outputs=[LIKE], grid=1, N=32)


def make_kernels():
    cube = jax.custom_vjp(lambda x: call(cube_kernel, x)[0])
    cube.defvjp(lambda x: call(cube_kernel, x), lambda slope, g: (g * slope,))
    circle = jax.custom_jvp(lambda x: call(circle_kernel, x))

    @circle.defjvp
    def _(xs, ts):
        cosine, sine = circle(xs[0])
        return (cosine, sine), (-ts[0] * sine, ts[0] * cosine)

    def bend(x):
        cosine, sine = circle(x)
        return sine * 0.5 + cosine * 0.25

    return cube, bend


def pull_later(function):
    """Gives a function a rule whose residual is the pullback of the function itself."""
    ruled = jax.custom_vjp(function)
    ruled.defvjp(lambda x, w: jax.vjp(function, x, w), lambda pull, g: pull(g))
    return ruled


def by_ref(x):
    ref = jax.new_ref(x)
    ref[...] = jnp.sin(ref[...])
    ref[...] += 0.5 * x
    return jax.freeze(ref)


KERNELS = (*make_kernels(), by_ref)
PLAIN = (lambda x: x * x * x, lambda x: jnp.sin(x) * 0.5 + jnp.cos(x) * 0.25, lambda x: jnp.sin(x) + 0.5 * x)


def add(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a case; `function` takes two kernels, an operation on a Ref and the two arguments, and returns a vector."""

    def make(parts):
        def step(x, w):
            total, pull = jax.vjp(lambda x, w: function(*parts, x, w), x, w)
            by_x, by_w = pull(jnp.cos(total))
            return {"total": total, "by_x": by_x, "by_w": by_w}

        return step

    CASES.append(Case(name=function.__name__, function=make(KERNELS), args=(VECTOR,) * 2, reference=make(PLAIN)))
    return function


def choose(x):
    return (x.sum() > 0).astype(int) + (x[0] > 0)


@add
def three_branches(cube, bend, ref, x, w):
    return jax.lax.switch(choose(x), (cube, ref, bend), jnp.sin(x * w))


@add
def with_the_argument(cube, bend, ref, x, w):
    return jax.lax.switch(
        choose(x), (lambda x, w: cube(x * w), lambda x, w: ref(x) * w, lambda x, w: bend(x + w)), x, w
    )


@add
def jitted(cube, bend, ref, x, w):
    return jax.lax.switch(choose(x), (lambda x: cube(jnp.sin(x)), jax.jit(ref), lambda x: w * bend(x)), x + w)


@add
def two_of_a_branch(cube, bend, ref, x, w):
    return jax.lax.cond(x[0] > 0, lambda x: ref(cube(jnp.tanh(x))) * w, lambda x: bend(ref(x * w)) + x, x)


@add
def nested(cube, bend, ref, x, w):
    def inner(x):
        return jax.lax.cond(x[1] > 0, lambda x: bend(x) * w, lambda x: cube(jnp.cos(x)), x)

    return jax.lax.cond(x[0] > 0, inner, lambda x: ref(x) * ref(w), x)


@add
def computed_again(cube, bend, ref, x, w):
    def layer(x, w):
        return ref(jax.lax.cond(x[0] > 0, lambda x: cube(jnp.sin(x * w)), lambda x: bend(x) - w, x))

    return jax.checkpoint(layer)(x, w)


@add
def in_a_scan(cube, bend, ref, x, w):
    def body(x, row):
        x = jax.lax.switch(choose(row), (lambda x: bend(x * row), ref, lambda x: cube(jnp.sin(x + row))), x)
        return x, x * row

    return sum(jax.lax.scan(body, x, jnp.stack([w, -w, x]))[1])


@add
def scan_computed_again(cube, bend, ref, x, w):
    def body(x, row):
        return cube(jnp.sin(x)) + row, bend(x) * row

    again = jax.checkpoint(lambda x, w: sum(jax.lax.scan(jax.checkpoint(body), x, jnp.stack([w, x]))[1]))
    return again(x, w) + ref(x)


@add
def one_after_another(cube, bend, ref, x, w):
    x = jax.lax.switch(choose(x), (lambda x: ref(x) * w, bend, lambda x: cube(jnp.sin(x))), x)
    return jax.lax.switch(choose(w), (lambda x: cube(jnp.cos(x)) * w, jax.jit(ref), bend), x)


@add
def turned_around(cube, bend, ref, x, w):
    def body(number, x):
        return jax.lax.cond(number > 1, lambda x: ref(x) * w, lambda x: 0.5 * bend(x), x)

    return jax.lax.fori_loop(0, 3, body, cube(jnp.sin(x)))


@add
def derivatives_in_branches(cube, bend, ref, x, w):
    pulled = pull_later(lambda x, w: cube(jnp.sin(x + w)))
    added = jax.jit(lambda x, w: ref(x) * 0.5 + w * 0.5)

    def slope(x, w):
        return jax.grad(lambda x: (bend(x - w) * w).sum())(x)

    return jax.lax.switch(choose(x), (pulled, added, slope), x, w)


@add
def a_ref_computed_again(cube, bend, ref, x, w):
    again = jax.checkpoint(
        lambda x, w: ref(x) + w * 0.5, policy=jax.checkpoint_policies.dots_saveable, prevent_cse=False
    )
    return jax.lax.fori_loop(0, 3, lambda _, x: 0.3 * x + 0.2 * (bend(x * 0.5 + w) + again(x, w)), x)


@add
def conditional_computed_again(cube, bend, ref, x, w):
    def slope(x, w):
        return jax.grad(lambda x: (bend(x - w) * w).sum())(x)

    def squared(x, w):
        return cube(jnp.sin(x + w))

    def layer(x, w):
        nested = pull_later(lambda x, w: bend(x * w))
        inner = lambda x, w: jax.lax.cond(w[0] > 0, squared, nested, x, w)  # noqa: E731
        outer = lambda x, w: jax.lax.switch(choose(x), (squared, slope, inner), x, w)  # noqa: E731
        x = jax.lax.cond(x[1] > 0, outer, lambda x, w: bend(x) * w, x, w)
        return ref(x) + w

    return jax.checkpoint(layer, policy=jax.checkpoint_policies.nothing_saveable)(x, w)


@add
def slopes_in_branches(cube, bend, ref, x, w):
    def slope(x):
        return sum(jax.grad(lambda x, w: bend(x - w).sum(), (0, 1))(x, w * w))

    def both(x):
        return ref(x) * 0.5 + bend(x * 0.5 + w) * w

    return jax.lax.switch(choose(x), (slope, lambda x: jax.grad(lambda x: bend(x).sum())(x) * w, both), x)
