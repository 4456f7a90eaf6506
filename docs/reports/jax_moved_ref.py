"""A Ref of zeros in the body of a differentiated scan: JAX reads it before the loop, and not after the write.

`ligerdiag check docs/reports/jax_moved_ref.py`. By itself, on a CPU too, it prints the loss of `jax.value_and_grad` and the
loss of the same function without it.
"""

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


def sine(x):
    ref = jax.new_ref(jnp.zeros(128))
    ref[...] = jnp.sin(x)
    return ref[...]


def compute_loss(w, rows):
    total, _ = jax.lax.scan(lambda total, row: (total + sine(row * w), None), jnp.zeros(128), rows)
    return (total**2).sum()


def step(w, rows):
    loss, gradient = jax.value_and_grad(compute_loss)(w, rows)
    return {"loss": loss, "gradient": gradient}


CASE = Case(name="moved_ref", function=step, args=(Arg(shape=(128,)), Arg(shape=(3, 128))))

if __name__ == "__main__":
    w, rows = jnp.ones(128), jax.random.normal(jax.random.key(0), (3, 128))
    print("with a gradient:   ", jax.jit(step)(w, rows)["loss"])
    print("without a gradient:", jax.jit(compute_loss)(w, rows))
