"""Programs with their own conditionals and loops around a kernel, which XLA leaves or transforms."""

import jax
import jax.numpy as jnp
from doubling_kernel import Cases, W, X, double, see
from jax import lax

CASES = Cases()


@CASES.add(X, W)
def on_argument(x, w):
    h = x @ w
    s = lax.cond(x.sum() > 0, double, lambda h: h.max(1), h)
    return {"s": s, "seen": see(h, s)}


@CASES.add(X, W)
def negated(x, w):
    h = x @ w
    s = lax.cond(jnp.logical_not(x.sum() > 0), double, lambda h: h.max(1), h)
    return {"s": s, "seen": see(h, s)}


@CASES.add(X, W)
def switched(x, w):
    h = x @ w
    n = (x[0, 0] * 3).astype(jnp.int32)
    s = lax.switch(n, [lambda h: h.max(1), double, lambda h: h.min(1)], h)
    return {"s": s, "seen": see(h, s)}


@CASES.add(X, W)
def same_twice(x, w):
    h, g = x @ w, x @ (2 * w)
    s = lax.cond(x.sum() > 0, double, lambda h: h.max(1), h)
    t = lax.cond(x.sum() > 0, double, lambda h: h.max(1), g)
    return {"s": s, "t": t}


@CASES.add(X, W)
def turns_by_argument(x, w):
    h = x @ w
    n = (x[0, 0] * 3).astype(jnp.int32)
    s = lax.fori_loop(0, n, lambda i, s: s + double(h + i), jnp.zeros(h.shape[0]))
    return {"s": s}


@CASES.add(X, W)
def until(x, w):
    def body(c):
        i, s, h = c
        t = double(h)
        return i + 1, s + t, see(h, t)

    _, s, h = lax.while_loop(lambda c: (c[0] < 10) & (c[1].sum() < 5.0), body, (0, jnp.zeros(x.shape[0]), x @ w))
    return {"s": s, "h": h}


@CASES.add(X, W)
def nested(x, w):
    h = x @ w

    def body(s, i):
        return s + lax.cond(i % 2 == 0, lambda: double(h + i), lambda: jnp.zeros(h.shape[0])), None

    return {"s": lax.scan(body, jnp.zeros(h.shape[0]), jnp.arange(4))[0]}


@CASES.add(X, W)
def fixed_true(x, w):
    h = x @ w
    s = lax.cond(True, double, lambda h: h.max(1), h)
    return {"s": s, "seen": see(h, s)}


@CASES.add(X, W)
def gradient(x, w):
    def loss(w):
        h = x @ w
        s = lax.stop_gradient(lax.cond(x.sum() > 0, double, lambda h: h.max(1), lax.stop_gradient(h)))
        return (h.sum(1) * s).sum()

    return {"g": jax.grad(loss)(w)}


@CASES.add(X, W)
def both_branches(x, w):
    h = x @ w
    s = lax.cond(x.sum() > 0, double, lambda h: 2 * double(h), h)
    return {"s": s}


@CASES.add(X, W)
def switched_to_equal(x, w):
    """XLA removes the product, and gives the first and the last branch one body."""
    h = x @ w
    n = (x[0, 0] * 3).astype(jnp.int32)
    s = lax.switch(n, [double, lambda h: h.max(1), lambda h: double(h * 1.0)], h)
    return {"s": s}
