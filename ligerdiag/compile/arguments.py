"""Worker side: a case's arguments as arrays, drawn the way the case says."""

import traceback
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ligerdiag.case import Arg, Case, Draw, Values
from ligerdiag.compile.worker_faults import describe_fault
from ligerdiag.errors import CaseError, InputError

NEXT_DRAW = 1_000_003
"""Added to the seeds for each further draw."""


def draw_arguments(case: Case, draw: int = 0) -> tuple[Any, ...]:
    """Arrays for the case's arguments, each drawn from `jax.random.key(draw.seed)` in f32 and cast to its
    dtype, or what the Arg has of its own.

    draw: 0 for the case's own seeds, n for the n-th other draw. Values of the case's own are the same in each. Raises
    InputError where a function of the case's draws something else than what the Arg says.
    """
    return jax.tree_util.tree_map(partial(draw_array, draw), case.args, is_leaf=lambda leaf: isinstance(leaf, Arg))


def draw_array(number: int, arg: Arg) -> jax.Array:
    """Returns one array, shape and dtype as the Arg says."""
    dtype = jnp.dtype(arg.dtype)
    match arg.draw:
        case Values(data=data):
            return _as_array(np.frombuffer(data, dtype).reshape(arg.shape))
        case Draw() as draw:
            key = jax.random.key(draw.seed + number * NEXT_DRAW)
            return _draw_values(draw, key, arg.shape, dtype).astype(dtype)
        case function:
            return _call(function, jax.random.key(number * NEXT_DRAW), arg.shape, dtype)


def _draw_values(draw: Draw, key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    match _settle_kind(draw.kind, dtype):
        case "normal":
            return jax.random.normal(key, shape, jnp.float32) * draw.scale
        case "squares":
            return jnp.square(jax.random.normal(key, shape, jnp.float32)) * draw.scale
        case "uniform":
            return jax.random.uniform(key, shape, jnp.float32, draw.low, draw.high)
        case "randint":
            return jax.random.randint(key, shape, int(draw.low), int(draw.high))
        case "bernoulli":
            return jax.random.bernoulli(key, 0.5 if draw.kind == "usual" else draw.scale, shape)
        case kind:
            assert kind == "zeros"
            return jax.lax.full(shape, 0, dtype)


def _settle_kind(kind: str, dtype: Any) -> str:
    if kind != "usual":
        return kind
    return "bernoulli" if dtype.kind == "b" else "randint" if jnp.issubdtype(dtype, jnp.integer) else "normal"


def _as_array(values: Any) -> jax.Array:
    library: Any = jnp
    return library.asarray(values)


def _call(function: Any, key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    try:
        values = _as_array(function(key, shape, dtype))
    except Exception as fault:
        traceback.print_exception(fault)
        raise CaseError(f"the draw of an argument raises: {describe_fault(fault)}") from fault
    if values.shape != shape:
        raise InputError(f"expected a draw of shape {list(shape)} but got one of shape {list(values.shape)}")
    return values.astype(dtype)
