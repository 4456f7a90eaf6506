"""TVM's FFI (packages `jax-tvm-ffi` and `apache-tvm-ffi`): any function, under a target that the user names."""

from typing import Any

import jax
import jax_tvm_ffi
import tvm_ffi

from ligerdiag.model.case import Arg, Case

TARGET = "tvm_add_and_double"


def add_and_double(a: Any, out: Any) -> None:
    """Stands for a kernel that a library compiled: nothing runs where there is no GPU."""


jax_tvm_ffi.register_ffi_target(TARGET, tvm_ffi.convert(add_and_double), platform="gpu")


def hidden(x: Any) -> Any:
    h = x * 3
    out = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(h.shape, h.dtype))(h)
    return {"out": out, "sum": h + 1}


def declared(x: Any) -> Any:
    h = x * 3
    shape = jax.ShapeDtypeStruct(h.shape, h.dtype)
    out, doubled = jax.ffi.ffi_call(TARGET, (shape, shape), input_output_aliases={0: 1})(h)
    return {"out": out, "doubled": doubled, "sum": h + 1}


VECTOR = Arg(shape=(64,))
CASES = (
    Case(name="hidden", function=hidden, args=(VECTOR,), expected={"*": "unknown"}),
    Case(
        name="told",
        function=hidden,
        args=(VECTOR,),
        effects={TARGET: {"writes": [0]}},
        expected={"sum": "stale", "*": "fresh"},
    ),
    Case(name="declared", function=declared, args=(VECTOR,), expected="fresh"),
)
