import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def sine(x):
    buffer = jax.new_ref(jnp.zeros_like(x))
    buffer[...] = jnp.sin(x)
    return buffer[...]


def step(chunks, w):
    def loss(w):
        total, _ = lax.scan(lambda total, x: (total + sine(x * w), None), jnp.zeros(128), chunks)
        return (total**2).sum()

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


CASE = Case(name="layers", function=step, args=(Arg(shape=(3, 128)), Arg(shape=(128,))))
