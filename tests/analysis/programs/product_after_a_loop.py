"""Three kernels with a hidden write each: the readers of the first one see it, and nobody reads what the second one leaves.
XLA takes the signs before the third one, which keeps them.

XLA removes the loop, which runs once, and computes the operand of the last product twice.
"""

import jax
import jax.numpy as jnp
from doubling_kernel import double

from ligerdiag import Arg, Case


def product_after_a_loop(w, x):
    sums, doubled = jax.lax.optimization_barrier((double(x), x))

    def body(state, _):
        h = doubled.T @ state * 0.25
        rows = double(h)
        return state, (rows[:, None] * jnp.cos(jnp.arange(16.0)), rows.sum())

    _, (spread, totals) = jax.lax.scan(body, doubled * 1.43, x[None])
    h = spread.mean(0) + w
    g = w + 1.0
    last = double(g)
    return {
        "product": h @ h,
        "total": totals.sum() + sums.sum(),
        "signs": jnp.sign(g) + doubled,
        "last": last,
    }


CASE = Case(name="product_after_a_loop", function=product_after_a_loop, args=(Arg(shape=(16, 16)), Arg(shape=(16, 16))))
