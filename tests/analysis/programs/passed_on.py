"""Arrays that a loop takes and passes on, overwritten inside of it. The reference is the program in plain jnp.

An array that a body closes over or carries unchanged is one array before, in and after the loop: all readers see what
the kernel leaves. The slices that a scan takes belong to the body: what it returns or keeps of them is what the kernel
left there, and the whole array keeps its contents. A differentiated scan runs its calls in each step.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from doubling_kernel import double
from jax import lax

from ligerdiag import Arg, Case

X, W, V, LIGHT, SQUARE = (
    Arg(shape=(8, 16)),
    Arg(shape=(16, 32)),
    Arg(shape=(8, 32)),
    Arg(shape=(8, 32)),
    Arg(shape=(32, 32)),
)
SLICES, CHUNKS = Arg(shape=(4, 8, 32)), Arg(shape=(4, 8, 16))
U, STEPS = Arg(shape=(3,)), jnp.array([1.0, 2.0, 4.0])
CASES: list[Case] = []


def add(reference: Callable[..., Any], *args: Arg) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(name=function.__name__, function=function, args=args, reference=reference))
        return function

    return register


def three_times(x, w):
    h = x @ w
    return {"total": 7 * h.sum(), "behind": 8 * h + 1}


@add(lambda x: {"total": 7 * (2 * x).sum(), "behind": 16 * x + 1}, LIGHT)
def closed_over_and_made_anew(x):
    h = 2 * x  # XLA may recompute this for the last line
    total = lax.fori_loop(0, 3, lambda _, total: total + double(h).sum(), 0.0)
    return {"total": total, "behind": h + 1}


@add(three_times, X, W)
def closed_over(x, w):
    h = x @ w
    total = lax.fori_loop(0, 3, lambda _, total: total + double(h).sum(), 0.0)
    return {"total": total, "behind": h + 1}


@add(three_times, X, W)
def carried(x, w):
    def body(state):
        step, total, h = state
        return step + 1, total + double(h).sum(), h

    _, total, h = lax.while_loop(lambda state: state[0] < 3, body, (0, 0.0, x @ w))
    return {"total": total, "behind": h + 1}


@add(lambda x, w: {"total": 15 * (x @ w).sum(), "behind": 16 * (x @ w) + 1}, X, W)
def closed_over_by_two_loops(x, w):
    h = x @ w

    def inner(_, total):
        return total + double(h).sum()

    total = lax.fori_loop(0, 2, lambda _, total: lax.fori_loop(0, 2, inner, total), 0.0)
    return {"total": total, "behind": h + 1}


@add(lambda x, w: {"before": (x @ w).sum(0), "behind": 8 * (x @ w) @ w.T, "total": 7 * (x @ w).sum()}, X, W)
def read_before_and_behind(x, w):
    h = x @ w
    before = h.sum(0)
    total = lax.fori_loop(0, 3, lambda _, total: total + double(h).sum(), 0.0)
    return {"before": before, "behind": h @ w.T, "total": total}


@add(lambda x, w: {"total": 3 * (x @ w).sum(), "behind": 4 * (x @ w) + 1}, X, W)
def overwritten_in_a_branch(x, w):
    h = x @ w

    def body(step, total):
        return total + lax.cond(step % 2 == 0, lambda: double(h).sum(), lambda: 0.0)

    return {"total": lax.fori_loop(0, 3, body, 0.0), "behind": h + 1}


def copies_in_python(x, w):
    count = 0.0
    for _ in range(3):
        count, x = count + x.sum(), x + jnp.tanh(2 * x @ w)
    return {"count": count, "x": x}


@add(copies_in_python, LIGHT, SQUARE)
def copied_in_each_step(x, w):
    def body(state, _):
        count, x = state
        h = x + 0.0  # a separate value, which XLA merges with x
        count = count + double(h).sum()
        return (count, x + jnp.tanh(h @ w)), None

    (count, x), _ = lax.scan(body, (0.0, x), None, length=3)
    return {"count": count, "x": x}


@add(lambda z: {"sums": z.sum(2), "slices": 2 * z, "whole": z.sum()}, SLICES)
def slices_returned(z):
    _, (sums, slices) = lax.scan(lambda carry, h: (carry, (double(h), h)), 0, z)
    return {"sums": sums, "slices": slices, "whole": z.sum()}


@add(lambda x, w: {"sums": (x @ w).sum(2), "gradient": 2 * (x @ w) @ w.T}, CHUNKS, W)
def logits_by_chunks(x, w):
    _, (sums, gradient) = lax.scan(lambda carry, h: (carry, (double(h), h)), 0, x @ w)
    return {"sums": sums, "gradient": gradient @ w.T}


@jax.custom_vjp
def summed(h):
    return double(h).sum()


def summed_forward(h):
    value = double(h).sum()
    return value, h


summed.defvjp(summed_forward, lambda h, g: (g * h,))


@add(lambda x, w: {"loss": (x @ w).sum(), "gradient": jnp.einsum("cik,cij->kj", x, 2 * (x @ w))}, CHUNKS, W)
def slices_kept(x, w):
    def loss(w):
        return lax.scan(lambda total, h: (total + summed(h), None), 0.0, x @ w)[0]

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


@add(lambda z, v: {"loss": (z * v).sum(), "sums": z.sum(2), "gradient": z.sum(0), "left": 2 * z.sum(0)}, SLICES, V)
def slices_saved_by_a_rule(z, v):
    def loss(v):
        def body(total, h):
            total = total + (h * v).sum()  # its derivative by v is h, from here
            return total, (double(h), h)

        return lax.scan(body, 0.0, z)

    (value, (sums, left)), gradient = jax.value_and_grad(loss, has_aux=True)(v)
    return {"loss": value, "sums": sums, "gradient": gradient, "left": left.sum(0)}


@jax.custom_vjp
def weighed(h, v):
    return double(h).sum() * v


def weighed_forward(h, v):
    value = double(h).sum()
    return value * v, h


weighed.defvjp(weighed_forward, lambda h, g: (jnp.zeros_like(h), g * h.sum()))


@add(lambda x, w, u: {"loss": (x @ w).sum() * (u * STEPS).sum(), "gradient": 8 * (x @ w).sum() * jnp.ones(3)}, X, W, U)
def differentiated(x, w, u):
    h = x @ w

    def loss(u):
        return lax.scan(lambda total, weight: (total + weighed(h, weight), None), 0.0, u)[0]

    value, gradient = jax.value_and_grad(loss)(u)
    return {"loss": value, "gradient": gradient}


def in_a_branch(x, w, u):
    h = x @ w
    return {"loss": h.sum() * (u[0] + 2 * u[2]), "gradient": h.sum() * jnp.array([1.0, 0.0, 2.0]), "behind": 4 * h + 1}


@add(in_a_branch, X, W, U)
def differentiated_in_a_branch(x, w, u):
    h = x @ w

    def loss(u):
        def body(total, step):
            number, weight = step
            return total + weight * lax.cond(number % 2 == 0, lambda: double(h).sum(), lambda: 0.0), None

        return lax.scan(body, 0.0, (jnp.arange(3), u))[0]

    value, gradient = jax.value_and_grad(loss)(u)
    return {"loss": value, "gradient": gradient, "behind": h + 1}
