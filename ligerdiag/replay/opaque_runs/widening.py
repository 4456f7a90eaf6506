"""Rewrites a program and its schedule so that every float is an f64, and every complex number a c128.

A run in f64 is so exact that the numbers of a fresh and of a stale output differ by orders of magnitude, whatever float
types the author chose. The rewritten module has the ids, names and tags of the original one. Conversions between floats
become identities, `reduce-precision` as well. Integers and booleans stay as they are.

The bits of a float have no counterpart after the rewrite. So floats that are read from the bits of integers are computed
in the original type and then widened, exactly. Integers made of the bits of floats are not covered, unless they only
order the floats (see `float_bits`): then they become integers of 64 bits. Outside of fusions, where the schedule stores
each value in memory, both conversions are not covered, because their intermediate values have no place there. A
`bitcast` between integers of different widths is never covered.

The buffer assignment is that of the original schedule. `wide_memory.WideMemory` runs the widened schedule on it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, is_tuple, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, LiteralProto, ShapeProto
from ligerdiag.replay.opaque_runs.float_bits import (
    READS_BYTES,
    find_kind,
    find_order_keys,
    is_float,
    keeps_width,
    refuse,
    widen_word,
)
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.movement import parse_literal
from ligerdiag.replay.ops.scope import Array, NotCoveredError

_S64, _U64, _F64, _C128 = 5, 9, 12, 18
_WIDE_BYTES = {"f": 8, "c": 16}
_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)


def widen_array(array: Array) -> Array:
    """Returns an array of floats as f64 and an array of complex numbers as c128, both exactly. An array of another type
    is returned unchanged.
    """
    kind = find_kind(array.dtype)
    return array if kind not in _WIDE_BYTES else array.astype(np.complex128 if kind == "c" else np.float64)


def widen_module(module: HloModule) -> HloModule:
    """Widens all floats of the module to f64 and returns the new module. Raises NotCoveredError for an element type
    that NumPy cannot store. Also raises it if the module uses the bits of a float for more than ordering floats.
    """
    in_memory = _list_in_memory(module)
    numbers = count(max([one.id for one in module.instructions], default=0) + 1)
    tags = dict(module.tags)
    widened = {
        number: _Widening(computation, number in in_memory, numbers, tags).run()
        for number, computation in module.computations.items()
    }
    return replace(module, entry=widened[module.entry.id], computations=widened, tags=tags)


def _list_in_memory(module: HloModule) -> set[int]:
    """Returns the ids of the computations whose values the schedule stores in the memory of a device, one by one."""
    called = {
        number for one in module.instructions if one.opcode in _RUNS_SCHEDULED for number in one.called_computations
    }
    return {one.id for one in module.computations.values() if one.sequence and one.id in called | {module.entry.id}}


class _Widening:
    """Widens one computation."""

    def __init__(
        self, computation: HloComputation, in_memory: bool, numbers: Iterator[int], tags: dict[int, TagPath]
    ) -> None:
        self._computation, self._in_memory = computation, in_memory
        self._numbers, self._tags = numbers, tags
        self._keys = find_order_keys(computation)
        self._made: dict[int, HloInstruction] = {}
        self._words: dict[int, HloInstruction] = {}
        self._order: list[HloInstruction] = []

    def run(self) -> HloComputation:
        """Returns the widened computation. Raises NotCoveredError as `widen_module` does."""
        for one in self._computation.instructions:
            made = self._widen_bits(one) if one.opcode in READS_BYTES else self._widen(one)
            self._made[one.id] = made
            self._order.append(made)
        return replace(
            self._computation,
            instructions=tuple(self._order),
            root=self._made[self._computation.root.id],
            sequence=tuple([self._made[one.id] for one in self._computation.sequence]),
        )

    def _widen(self, one: HloInstruction) -> HloInstruction:
        has_keys = any(operand.id in self._keys for operand in one.operands)
        operands = tuple(
            [
                self._widen_word(operand) if has_keys and _is_word(operand) else self._made[operand.id]
                for operand in one.operands
            ]
        )
        proto = _widen_proto(one)
        if one.id in self._keys:
            _widen_integer(proto.shape)
        return _make(one, one.id, operands, proto)

    def _widen_bits(self, one: HloInstruction) -> HloInstruction:
        """Widens an instruction that may read the bytes of a value as another element type."""
        (operand,) = one.operands
        if operand.shape.element_type == one.shape.element_type:
            return self._widen(one)
        if one.id in self._keys:
            if self._in_memory:
                raise refuse(one)
            return self._widen(one)
        if self._in_memory and one.opcode == "bitcast" and not keeps_width(one):
            raise refuse(one)
        if not is_float(one.shape):
            return self._widen(one)
        if self._in_memory:
            raise NotCoveredError(f"`{one.name}`: a bitcast-convert outside of a fusion, in f64")
        bits = self._add(one, (self._made[operand.id],), one.proto)
        return _make(one, one.id, (bits,), _widen_proto(one, "convert"))

    def _widen_word(self, one: HloInstruction) -> HloInstruction:
        """Returns the constant of 64 bits that takes the place of a constant where wide integers use it."""
        if one.id not in self._words:
            operands = tuple(map(self._widen_word, one.operands))
            proto = _widen_proto(one)
            _widen_integer(proto.shape)
            if one.opcode == "constant":
                word = parse_literal(one.proto.literal)
                assert not isinstance(word, tuple)
                proto.literal.CopyFrom(_make_literal(proto.shape, widen_word(word)))
            self._words[one.id] = self._add(one, operands, proto)
        return self._words[one.id]

    def _add(
        self, one: HloInstruction, operands: tuple[HloInstruction, ...], proto: HloInstructionProto
    ) -> HloInstruction:
        added = _make(one, next(self._numbers), operands, proto)
        if path := self._tags.get(one.id):
            self._tags[added.id] = path
        self._order.append(added)
        return added


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


def _is_word(one: HloInstruction) -> bool:
    """Returns whether the instruction is an integer constant, broadcast or not."""
    while one.opcode == "broadcast":
        one = one.operands[0]
    return one.opcode == "constant" and not is_tuple(one.shape) and get_dtype(one.shape).kind in "iu"


def _widen_integer(shape: ShapeProto) -> None:
    """Makes an integer one of 64 bits; leaves any other type unchanged."""
    shape.element_type = {"i": _S64, "u": _U64}.get(get_dtype(shape).kind, shape.element_type)


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
        kind = find_kind(get_dtype(shape))
        if kind in _WIDE_BYTES:
            shape.element_type = _C128 if kind == "c" else _F64


def _widen_literal(literal: LiteralProto) -> LiteralProto:
    if is_tuple(literal.shape):
        found = LiteralProto(tuple_literals=[_widen_literal(child) for child in literal.tuple_literals])
        found.shape.CopyFrom(literal.shape)
        _widen_shape(found.shape)
        return found
    if not is_float(literal.shape):
        return literal
    value = parse_literal(literal)
    assert not isinstance(value, tuple)
    shape = ShapeProto()
    shape.CopyFrom(literal.shape)
    _widen_shape(shape)
    return _make_literal(shape, widen_array(value))


def _make_literal(shape: ShapeProto, value: Array) -> LiteralProto:
    """Returns the literal of an array of f64, c128, s64 or u64."""
    flat: Any = np.ascontiguousarray(value).reshape(-1)
    found = LiteralProto()
    found.shape.CopyFrom(shape)
    found.shape.layout.minor_to_major[:] = range(len(shape.dimensions))[::-1]
    match flat.dtype.kind:
        case "c":
            found.c128s.extend(flat.view(np.float64).tolist())
        case "i":
            found.s64s.extend(flat.tolist())
        case "u":
            found.u64s.extend(flat.tolist())
        case _:
            found.f64s.extend(flat.tolist())
    return found


def find_scale(module: HloModule) -> int:
    """Returns how many times longer the narrowest float of the module becomes in f64, such as 4 for a bf16. Returns 1
    if the module has no floats.
    """
    widths = {
        (kind, dtype.itemsize)
        for one in module.instructions
        for _, shape in iterate_leaf_shapes(one.shape)
        if shape.element_type != TOKEN and (kind := find_kind(dtype := get_dtype(shape))) in _WIDE_BYTES
    }
    return max([_WIDE_BYTES[kind] // size for kind, size in widths], default=1)
