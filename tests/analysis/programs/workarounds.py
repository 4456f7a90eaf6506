"""Programs that order a reader after the kernel by arithmetic, and some that only seem to."""

import jax
import jax.numpy as jnp
from doubling_kernel import Cases, W, X, double

CASES = Cases()


@CASES.add(X, W)
def added_and_subtracted(x, w):
    h = x @ w
    sums = double(h)
    total = sums.sum()
    h = h + total
    h = h - total
    return {"sums": sums, "back": h @ w.T, "total": total}


@CASES.add(X, W)
def added_by_rows(x, w):
    h = x @ w
    sums = double(h)
    h = sums[:, None] + h
    h = h - sums[:, None]
    return {"sums": sums, "back": h @ w.T}


@CASES.add(X, W)
def in_a_loop(x, w):
    def body(total, row):
        h = (row[None] @ w) * jnp.ones((8, 1))
        sums = double(h)
        h = h + sums.sum()
        h = h - sums.sum()
        return total + h.sum(0), sums

    total, sums = jax.lax.scan(body, jnp.zeros(32), x)
    return {"total": total, "sums": sums}


@CASES.add(X, W)
def in_an_inner_jit(x, w):
    @jax.jit
    def double_and_order(h):
        sums = double(h)
        total = sums.sum()
        h = h + total
        return sums, h - total

    sums, h = double_and_order(x @ w)
    return {"sums": sums, "back": h @ w.T}


@CASES.add(X, W)
def subtracts_another(x, w):
    h = x @ w
    sums = double(h)
    h = h + sums.sum()
    h = h - sums.max()
    return {"sums": sums, "back": h @ w.T}


@CASES.add(X, W)
def adds_an_argument(x, w):
    h = x @ w
    sums = double(h)
    h = h + x.sum()
    h = h - x.sum()
    return {"sums": sums, "back": h @ w.T}


@CASES.add(X, W)
def subtracted_from(x, w):
    h = x @ w
    sums = double(h)
    total = sums.sum()
    return {"sums": sums, "back": (total - (h + total)) @ w.T}


@CASES.add(X, W)
def added_to_another_value(x, w):
    h = x @ w
    sums = double(h)
    total = sums.sum()
    other = x + total
    other = other - total
    return {"sums": sums, "other": other, "back": h * total}
