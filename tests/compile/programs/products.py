"""A program with two products of matrices, for which XLA's autotuner chooses implementations."""

import jax.numpy as jnp

from ligerdiag.model.case import Arg, Case


def multiply(x, w, v):
    return jnp.tanh(x @ w) @ v


CASE = Case(
    name="products",
    function=multiply,
    args=(Arg(shape=(256, 512)), Arg(shape=(512, 1024)), Arg(shape=(1024, 128))),
)
