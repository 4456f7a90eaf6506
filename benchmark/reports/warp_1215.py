"""A wrapper's second registration silently gets the aliases of the first one: the kernel overwrites an undeclared
operand.

Structure: an FFI target that increments its operand in place is called without an alias, as the cached registration
says; the operand is read afterwards. What the target does is declared to ligerdiag, as its author declared it to the
wrapper.

The right answer: the author declared `data` as input and output, so `double` means its contents after the call. XLA
knows of no write: `double` is stale or right by luck.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

TARGET = "increment"


def increment_hidden(x):
    data = jnp.sin(x)
    count = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct((), "float32"))(data)  # at: call
    return {"count": count, "double": data * 2.0}


def increment_declared(x):
    outs = (jax.ShapeDtypeStruct((), "float32"), jax.ShapeDtypeStruct(x.shape, x.dtype))
    count, data = jax.ffi.ffi_call(TARGET, outs, input_output_aliases={0: 1})(jnp.sin(x))
    return {"count": count, "double": data * 2.0}


REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/1215",
    year=2026,
    versions="warp 1.11",
    kind=Kind.STALE,
    reported="the cache of FFI wrappers ignores in_out_argnames, so a call gets the aliases of another one",
    finds=Wrong(outputs=("double",), at=("call",)),
)
EFFECTS = {TARGET: {"writes": [0]}}
BAD = Case(name="warp_1215", params=("bad",), function=increment_hidden, args=(Arg(shape=(256,)),), effects=EFFECTS)
CURED = Case(
    name="warp_1215", params=("cured",), function=increment_declared, args=(Arg(shape=(256,)),), effects=EFFECTS
)
CASES = (BAD, CURED)
