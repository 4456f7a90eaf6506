"""Worker side: what a kernel call is to XLA, also where it is in no module: then it is lowered by itself.

So the effects of a missing call can be read like those of any other.
"""

import base64
import re
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jaxlib.mlir import ir

from ligerdiag.compile.artifacts import LoneCall
from ligerdiag.compile.tags import walk_operations

_OPERAND = re.compile(r"operand_index = (\d+)")


def lower_alone(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> LoneCall | None:
    """Lowers a call of the primitive on operands of these types; None, and a traceback in the log, where that fails."""
    try:
        library: Any = jax
        module = library.jit(_make_function(primitive, params, avals), keep_unused=True).trace(
            *(_describe(aval) for aval in avals)
        )
        operations = walk_operations(module.lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo").operation)
        (call,) = [operation for operation in operations if operation.name == "stablehlo.custom_call"]
        return read_custom_call(call)
    except Exception as fault:
        traceback.print_exception(fault)
        return None


def _make_function(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> Any:
    def function(*arrays: Any) -> Any:
        library: Any = jax
        pairs = zip(arrays, avals, strict=True)
        operands = [library.new_ref(array) if hasattr(aval, "inner_aval") else array for array, aval in pairs]
        return primitive.bind(*operands, **params)

    return function


def _describe(aval: Any) -> jax.ShapeDtypeStruct:
    inner = getattr(aval, "inner_aval", aval)
    return jax.ShapeDtypeStruct(inner.shape, inner.dtype)


def read_custom_call(operation: Any) -> LoneCall:
    """Returns the custom call as XLA gets it."""
    attributes = operation.attributes
    aliases = str(attributes["output_operand_aliases"]) if "output_operand_aliases" in attributes else ""
    return LoneCall(
        target=ir.StringAttr(attributes["call_target_name"]).value,
        config=base64.b64encode(_read_config(attributes)).decode(),
        declared=tuple(sorted({int(number) for number in _OPERAND.findall(aliases)})),
    )


def _read_config(attributes: Any) -> bytes:
    """XLA keeps a string as it is, and a dictionary as it is printed."""
    name = "mhlo.backend_config" if "mhlo.backend_config" in attributes else "backend_config"
    if name not in attributes:
        return b""
    attribute = attributes[name]
    return attribute.value_bytes if isinstance(attribute, ir.StringAttr) else str(attribute).encode()
