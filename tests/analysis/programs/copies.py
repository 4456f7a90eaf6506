"""Copies that the author asks for, of an array that a kernel overwrites: JAX makes the array itself of them."""

import jax
import jax.numpy as jnp
from doubling_kernel import Cases, W, X, double

CASES = Cases()


def overwrite_one(x, w):
    h = x @ w
    return {"overwritten": 2 * h @ w.T, "other": h @ w.T, "sums": h.sum(1)}


@CASES.add(X, W, reference=overwrite_one)
def copy_overwritten(x, w):
    h = x @ w
    copy = jnp.copy(h)
    sums = double(copy)
    return {"overwritten": copy @ w.T, "other": h @ w.T, "sums": sums}


@CASES.add(X, W, reference=overwrite_one)
def copy_kept(x, w):
    h = x @ w
    copy = jnp.array(h)
    sums = double(h)
    return {"overwritten": h @ w.T, "other": copy @ w.T, "sums": sums}


@CASES.add(X, W, reference=lambda x, w: {"sums": (x @ w).sum(1), "gradient": x.T @ jnp.ones((8, 32))})
def copy_of_a_derived_value(x, w):
    def loss(w):
        h = x @ w
        return jnp.copy(h).sum(), double(jnp.copy(jax.lax.stop_gradient(h)))

    gradient, sums = jax.grad(loss, has_aux=True)(w)
    return {"sums": sums, "gradient": gradient}
