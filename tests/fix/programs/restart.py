from functools import partial

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


@partial(jax.jit, donate_argnums=(0,))
def restart(metrics, value):
    start = jnp.tanh(value)
    return [start for _ in metrics], metrics


NUMBER = Arg(shape=())
CASE = Case(name="restart", function=restart, args=([NUMBER, NUMBER, NUMBER], NUMBER))
