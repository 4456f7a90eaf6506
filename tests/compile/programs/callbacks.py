"""Calls into Python and into libraries: what a schedule says of them needs none of what they call."""

from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from ligerdiag import Arg, Case

ARGS = (Arg(shape=(16, 16)),)


def printed(x: Any) -> Any:
    jax.debug.print("sum {total}", total=x.sum())
    return {"y": x * 2}


def pure(x: Any) -> Any:
    return {"y": jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)}


def impure(x: Any) -> Any:
    y = io_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=False)
    return {"y": y + x}


def buffers(x: Any) -> Any:
    from jax.experimental.buffer_callback import buffer_callback

    call = buffer_callback(lambda context, out, a: None, jax.ShapeDtypeStruct(x.shape, x.dtype))
    return {"y": call(x), "z": x * 2}


def foreign(x: Any) -> Any:
    return {"y": jax.ffi.ffi_call("somebody_s_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x), "z": x * 2}


READ = (printed, pure, impure)
"""Operands are copied for them: nothing is overwritten."""
UNKNOWN = (buffers, foreign)

CASES = tuple(Case(name=function.__name__, function=function, args=ARGS) for function in (*READ, *UNKNOWN))
