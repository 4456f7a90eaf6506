"""Worker side: a case's arguments as arrays, drawn the way the case says."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.case import Arg, Case
from ligerdiag.errors import InputError

NEXT_DRAW = 1_000_003
"""What each further draw adds to the seeds."""


def draw_arguments(case: Case, draw: int = 0) -> tuple[Any, ...]:
    """Arrays for the case's arguments, each drawn from `jax.random.key(draw.seed)` in f32 and cast to its dtype.

    draw: 0 for the case's own seeds, n for the n-th other draw. Raises InputError for a kind of draw that is not known.
    """
    return jax.tree_util.tree_map(partial(draw_array, draw), case.args, is_leaf=lambda leaf: isinstance(leaf, Arg))


def draw_array(number: int, arg: Arg) -> jax.Array:
    """One array, shape and dtype as the Arg says."""
    draw, dtype = arg.draw, jnp.dtype(arg.dtype)
    key = jax.random.key(draw.seed + number * NEXT_DRAW)
    match draw.kind:
        case "normal":
            values = jax.random.normal(key, arg.shape, jnp.float32) * draw.scale
        case "uniform":
            values = jax.random.uniform(key, arg.shape, jnp.float32, draw.low, draw.high)
        case "randint":
            values = jax.random.randint(key, arg.shape, int(draw.low), int(draw.high))
        case "bernoulli":
            values = jax.random.bernoulli(key, draw.scale, arg.shape)
        case "zeros":
            values = jax.lax.full(arg.shape, 0, dtype)
        case _:
            raise InputError(f"expected normal, uniform, randint, bernoulli or zeros as a draw but got `{draw.kind}`")
    return values.astype(dtype)
