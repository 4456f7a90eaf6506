import jax.numpy as jnp

from ligerdiag import Arg, Case

DEVICES, ROWS = 4, 2


def spread(rows):
    return jnp.concatenate([jnp.pad(rows[ROWS * i : ROWS * (i + 1)], (1, 2)) for i in range(DEVICES)])


def gather(pieces):
    return jnp.concatenate([pieces[5 * i + 1 : 5 * i + 1 + ROWS] for i in range(DEVICES)])


def step(x, z):
    return {"sum": gather(spread(x) * z) + gather(spread(gather(z)))}


CASES = [
    Case(
        name="pieces",
        function=step,
        args=(Arg(shape=(8,), partition=("x",)), Arg(shape=(20,), partition=("x",))),
        mesh={"x": DEVICES},
    )
]
