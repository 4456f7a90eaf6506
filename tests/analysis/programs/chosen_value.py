"""The schedule gets a value wrong, but with the random arguments a `where` does not choose it."""

import jax.numpy as jnp
from doubling_kernel import double

from ligerdiag import Arg, Case, Draw

POSITIVE = Draw(kind="uniform", low=0.1, high=1.0)


def chosen_value(x, w):
    h = x @ w
    before = h + 1  # XLA computes it after the kernel, together with the choice
    sums = double(h)
    return {"chosen": jnp.where(sums.sum() > 0, h, before)}


CASE = Case(
    name="chosen_value",
    function=chosen_value,
    args=(Arg(shape=(8, 16), draw=POSITIVE), Arg(shape=(16, 32), draw=POSITIVE)),
)
