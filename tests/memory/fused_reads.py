"""Steps that read an old value inside of a fusion whose last operation is another one; the readers say `# reads`."""

import jax.numpy as jnp

from ligerdiag import Arg, Case


def first_of_four(x, row, y):
    new = x.at[0].set(row)
    part = jnp.tanh(x)  # reads
    shifted = part * y
    return new, shifted - 3


def into_a_sum(x, row, y):
    new = x.at[0].set(row)
    part = jnp.tanh(x)  # reads
    return new, jnp.sum(part * y)


def in_the_middle(x, row, y):
    new = x.at[0].set(row)
    ready = jnp.tanh(y)
    part = ready * x  # reads
    return new, jnp.cos(part)


def with_the_new_one(x, row, y):
    new = x.at[0].set(row)
    old = jnp.tanh(x)
    mixed = jnp.cos(new)
    both = old * mixed  # reads both
    return new, both + y


CASES = tuple(
    Case(
        name=one.__name__,
        function=one,
        args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512,)), Arg(shape=(512, 512))),
    )
    for one in (first_of_four, into_a_sum, in_the_middle, with_the_new_one)
)
