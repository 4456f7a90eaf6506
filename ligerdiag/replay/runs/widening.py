"""Rewrites a program and its schedule so that every float is an f64, and every complex number a c128.

A run in f64 is so exact that the numbers of a fresh and of a stale output differ by orders of magnitude, whatever float
types the author chose. The rewritten module has the ids, names and tags of the original one. Conversions between floats
become identities, `reduce-precision` as well. Integers and booleans stay as they are.

The bits of a float have no counterpart after the rewrite. So a `bitcast-convert` from integers is computed in the
original type and its result is widened, exactly; one from floats is not covered, nor is a `bitcast` between a float and
another type, nor a `bitcast-convert` that the schedule runs by itself, because its intermediate value has no place.

The buffer assignment is that of the original schedule. `wide_memory.WideMemory` runs the widened one on it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import TOKEN, is_tuple, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, LiteralProto, ShapeProto
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.movement import parse_literal
from ligerdiag.replay.ops.scope import Array, NotCoveredError

_F64, _C128 = 12, 18
_WIDE_BYTES = {"f": 8, "c": 16}


def widen_array(array: Array) -> Array:
    """Returns an array of floats as f64, exactly, one of complex numbers as c128, and any other array unchanged."""
    kind = _find_kind(array.dtype)
    return array if kind not in _WIDE_BYTES else array.astype(np.complex128 if kind == "c" else np.float64)


def widen_module(module: HloModule) -> HloModule:
    """Returns the module with all floats widened to f64. Raises NotCoveredError if it looks at the bits of a float, or
    for an element type that NumPy cannot store.
    """
    free = max([one.id for one in module.instructions], default=0) + 1
    widened: dict[int, HloComputation] = {}
    tags = dict(module.tags)
    for number, computation in module.computations.items():
        made: dict[int, HloInstruction] = {}
        order: list[HloInstruction] = []
        for one in computation.instructions:
            _refuse_bits(one)
            operands = tuple([made[operand.id] for operand in one.operands])
            if one.opcode == "bitcast-convert" and _is_float(one.shape):
                if computation.sequence:
                    raise NotCoveredError(f"`{one.name}`: a bitcast-convert outside of a fusion, in f64")
                bits = _make(one, free, operands, one.proto)
                if path := tags.get(one.id):
                    tags[free] = path
                free += 1
                order.append(bits)
                made[one.id] = _make(one, one.id, (bits,), _widen_proto(one, "convert"))
            else:
                made[one.id] = _make(one, one.id, operands, _widen_proto(one))
            order.append(made[one.id])
        widened[number] = replace(
            computation,
            instructions=tuple(order),
            root=made[computation.root.id],
            sequence=tuple([made[one.id] for one in computation.sequence]),
        )
    entry = widened[module.entry.id]
    return replace(module, entry=entry, computations=widened, tags=tags)


def _make(
    one: HloInstruction, number: int, operands: tuple[HloInstruction, ...], proto: HloInstructionProto
) -> HloInstruction:
    return HloInstruction(
        number,
        one.name,
        proto.opcode,
        operands,
        one.control_predecessors,
        one.called_computations,
        proto,
        proto.shape,
        one.op_name,
    )


def _refuse_bits(one: HloInstruction) -> None:
    """Raises NotCoveredError for an instruction that reads the bits of a float as another type."""
    if one.opcode == "bitcast-convert" and any(_is_float(operand.shape) for operand in one.operands):
        raise NotCoveredError(f"`{one.name}`: a bitcast-convert of floats, in f64")
    if one.opcode == "bitcast" and one.operands[0].shape.element_type != one.shape.element_type:
        raise NotCoveredError(f"`{one.name}`: a bitcast to another element type, in f64")


def _widen_proto(one: HloInstruction, opcode: str = "") -> HloInstructionProto:
    proto = HloInstructionProto()
    proto.CopyFrom(one.proto)
    proto.opcode = opcode or ("convert" if one.opcode == "reduce-precision" else one.opcode)
    _widen_shape(proto.shape)
    if proto.HasField("literal"):
        proto.literal.CopyFrom(_widen_literal(one.proto.literal))
    return proto


def _widen_shape(shape: ShapeProto) -> None:
    for child in shape.tuple_shapes:
        _widen_shape(child)
    if not is_tuple(shape) and shape.element_type != TOKEN:
        kind = _find_kind(get_dtype(shape))
        if kind in _WIDE_BYTES:
            shape.element_type = _C128 if kind == "c" else _F64


def _widen_literal(literal: LiteralProto) -> LiteralProto:
    if is_tuple(literal.shape):
        found = LiteralProto(tuple_literals=[_widen_literal(child) for child in literal.tuple_literals])
        found.shape.CopyFrom(literal.shape)
        _widen_shape(found.shape)
        return found
    if not _is_float(literal.shape):
        return literal
    value = parse_literal(literal)
    assert not isinstance(value, tuple)
    flat: Any = np.ascontiguousarray(widen_array(value)).reshape(-1)
    found = LiteralProto()
    found.shape.CopyFrom(literal.shape)
    _widen_shape(found.shape)
    found.shape.layout.minor_to_major[:] = range(len(literal.shape.dimensions))[::-1]
    if flat.dtype.kind == "c":
        found.c128s.extend(flat.view(np.float64).tolist())
    else:
        found.f64s.extend(flat.tolist())
    return found


def _is_float(shape: ShapeProto) -> bool:
    """Returns whether the shape is an array of floats or complex numbers."""
    return not is_tuple(shape) and shape.element_type != TOKEN and _find_kind(get_dtype(shape)) in _WIDE_BYTES


def _find_kind(dtype: "np.dtype[Any]") -> str:
    """Returns `f` for a float, `c` for a complex number, and another letter for any other type."""
    return "f" if dtype.kind == "V" or dtype.name.startswith(("bfloat", "float")) else dtype.kind


def find_scale(module: HloModule) -> int:
    """Returns how many times longer a float's bytes become in f64, the most over all floats of the module; 1 if it has
    none.
    """
    widths = {
        (kind, dtype.itemsize)
        for one in module.instructions
        for _, shape in iterate_leaf_shapes(one.shape)
        if shape.element_type != TOKEN and (kind := _find_kind(dtype := get_dtype(shape))) in _WIDE_BYTES
    }
    return max([_WIDE_BYTES[kind] // size for kind, size in widths], default=1)
