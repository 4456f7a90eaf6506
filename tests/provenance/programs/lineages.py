"""Programs whose values XLA moves to other instructions, and loops and conditionals that its lineage cannot pass."""

import jax
import jax.numpy as jnp

from ligerdiag.model.case import Arg, Case

H, W = Arg(shape=(128, 64)), Arg(shape=(64, 32))


def joined(h, w1, w2):
    return {"first": h @ w1, "second": jnp.tanh(h @ w2)}


def twins(h):
    return {"one": jnp.exp(h) + 1.0, "other": jnp.exp(h) * 2.0}


def controlled(h, w1):
    weight = h @ w1

    def step(number, state):
        return jnp.tanh(state) + weight * state.astype("float32")

    looped = jax.lax.fori_loop(0, 5, step, jnp.sin(weight))
    small, size = jax.lax.cond(
        looped[0, 0] > 0, lambda x: (x, jnp.float32(1.0)), lambda x: (x + weight, jnp.float32(2.0)), looped
    )
    return {"small": small.astype("float32"), "size": size * 1.0}


def folded(h):
    """XLA refuses the lineage of the product: both operations are folded into the conditional's result."""
    small, size = jax.lax.cond(h[0, 0] > 0, lambda x: (x, x[0, 1]), lambda x: (-x, x[1, 0]), h)
    return {"small": small, "size": jnp.reshape(size, ()) * 1.0}


CASES = (
    Case(name="joined", function=joined, args=(H, W, W)),
    Case(name="twins", function=twins, args=(H,)),
    Case(name="controlled", function=controlled, args=(H, W)),
    Case(name="folded", function=folded, args=(H,)),
)
