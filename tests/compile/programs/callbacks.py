"""Calls into Python and into libraries; judging their schedules needs none of the called code."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from ligerdiag import Arg, Case
from tests.compile.programs import asking

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


def ordered(x: Any) -> Any:
    jax.debug.print("sum {total}", total=x.sum(), ordered=True)
    y = io_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
    return {"y": y + x}


def eigenvalues(x: Any) -> Any:
    return {"w": jnp.linalg.eigvals(x)}


def attention(x: Any) -> Any:
    q = jnp.broadcast_to(x[0], (1, 64, 2, 16)).astype(jnp.float16)

    def attend(q: Any) -> Any:
        return jax.nn.dot_product_attention(q, q, q, is_causal=True, implementation="cudnn").astype(jnp.float32).sum()

    loss, gradient = jax.value_and_grad(attend)(q)
    return {"loss": loss, "gradient": gradient}


def shown_early(x: Any) -> Any:
    logits = x.reshape(asking.SIZE) + 1
    total = asking.by_kernel(logits)
    jax.debug.print("{shown}", shown=logits * 3, ordered=True)
    return {"total": total}


READ = (printed, pure, impure, ordered, eigenvalues, attention)
"""XLA copies their operands, or the call only reads them: nothing is overwritten."""
UNKNOWN = (buffers, foreign)

CASES = tuple(Case(name=function.__name__, function=function, args=ARGS) for function in (*READ, *UNKNOWN, shown_early))
