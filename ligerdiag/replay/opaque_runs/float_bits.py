"""Finds the integers that a computation makes from the bits of floats, and uses only to order the floats.

XLA writes the total order of floats with integers: it flips all bits of a negative float but the sign, and compares the
results. Such an integer can be computed from an f64 as well as from the original type, and the comparisons then order
the f64s. Each integer is followed from the bits of one float on. For each sign of the float it has a known sign bit,
and its other bits are all 0, all 1, the float's own, or the float's own flipped. An integer whose other bits are all 0
or all 1, which is one of 0, -1, MAX and MIN, is a *word*.

Two integers may be compared if their 64-bit forms give the same answer. That is so if, wherever their sign bits agree,
both are words; or the other bits of each are the float's own or all 0; or the other bits of each are the flipped ones
or all 1. No operation besides these comparisons, and those that make such integers, may use them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import DTYPE_NAMES, TOKEN, is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.movement import load_constant
from ligerdiag.replay.ops.scope import Array, NotCoveredError

READS_BYTES = ("bitcast", "bitcast-convert")
"""Opcodes that can read the bytes of a value as another element type."""

type _Form = tuple[bool, bool, bool]
"""An integer as it is made of a float's bits: (its sign bit, its value of every other bit that is 0 in the float, its
value of every other bit that is 1 in the float).
"""

_IEEE = ("f16", "bf16", "f32", "f64")
_WORD = -1
_BITWISE: Mapping[str, Callable[[bool, bool], bool]] = {
    "and": lambda one, two: one and two,
    "or": lambda one, two: one or two,
    "xor": lambda one, two: one != two,
}
_DIRECTIONS: Mapping[str, Callable[[int, int], bool]] = {"EQ": eq, "NE": ne, "LT": lt, "LE": le, "GT": gt, "GE": ge}


@dataclass(frozen=True, slots=True)
class _Bits:
    """An integer that depends on the bits of one float."""

    source: int
    """Id of the instruction that reads the bits of the float; `_WORD` for a constant."""
    element_type: str
    """Type of the float; empty for a constant."""
    forms: tuple[_Form, _Form]
    """The form of the integer if the float's sign bit is 0, and if it is 1."""


@dataclass(frozen=True, slots=True)
class _SignTest:
    """A boolean that depends on the sign of one float."""

    source: int
    answers: tuple[bool, bool]
    """The boolean if the float's sign bit is 0, and if it is 1."""


def find_order_keys(computation: HloComputation) -> frozenset[int]:
    """Returns the ids of the integers that are made from the bits of floats and only serve to compare the floats.
    Raises NotCoveredError if the computation uses the bits of a float for anything else.
    """
    keys: dict[int, _Bits] = {}
    tests: dict[int, _SignTest] = {}
    sources: dict[int, HloInstruction] = {}
    for one in computation.instructions:
        if reads_bits(one):
            sources[one.id] = one
            keys[one.id] = _read_bits(one)
        elif used := [keys[operand.id] for operand in one.operands if operand.id in keys]:
            found = _test(one, keys) if one.opcode == "compare" else _follow(one, keys, tests)
            if found is None:
                raise refuse(sources[used[0].source])
            if isinstance(found, _Bits):
                keys[one.id] = found
            elif found.source != _WORD:
                tests[one.id] = found
    if computation.root.id in keys:
        raise refuse(sources[keys[computation.root.id].source])
    return frozenset(keys)


def widen_word(word: Array) -> Array:
    """Returns the 64-bit constant that replaces the integer constant `word` in the widened module. An element that is
    0, -1, MAX or MIN of its type becomes 0, -1, MAX or MIN of the 64-bit type. If all elements are the largest shift of
    their type, such as 31 for s32, they become 63.
    """
    wide = np.dtype(f"{word.dtype.kind}8")
    if word.size and (word == _count_bits(word.dtype) - 1).all():
        return np.full(word.shape, 63, wide)
    signed: Any = word.view(f"i{word.dtype.itemsize}")
    low: Any = np.where(signed & 1, np.int64(np.iinfo(np.int64).max), np.int64(0))
    return (low | np.where(signed < 0, np.int64(np.iinfo(np.int64).min), np.int64(0))).view(wide)


def is_float(shape: ShapeProto) -> bool:
    """Returns whether the shape is an array of floats or complex numbers."""
    return not is_tuple(shape) and shape.element_type != TOKEN and find_kind(get_dtype(shape)) in {"f", "c"}


def find_kind(dtype: "np.dtype[Any]") -> str:
    """Returns `f` for a float and `c` for a complex number. For any other dtype, returns NumPy's `dtype.kind`, such as
    `i`.
    """
    return "f" if dtype.kind == "V" or dtype.name.startswith(("bfloat", "float")) else dtype.kind


def reads_bits(one: HloInstruction) -> bool:
    """Returns whether the instruction, such as a `bitcast-convert`, reads the bytes of floats as another element type."""
    if one.opcode not in READS_BYTES:
        return False
    read = one.operands[0].shape
    return is_float(read) and read.element_type != one.shape.element_type


def refuse(one: HloInstruction) -> NotCoveredError:
    """Returns the error for an instruction that reads the bytes of a value as another element type. A replay in f64
    cannot run it, because in f64 the value has other bytes.
    """
    kind = "a bitcast to another element type" if one.opcode == "bitcast" else "a bitcast-convert of floats"
    return NotCoveredError(f"`{one.name}`: {kind}, in f64")


def _read_bits(one: HloInstruction) -> _Bits:
    element_type = DTYPE_NAMES[one.operands[0].shape.element_type]
    if element_type not in _IEEE or not keeps_width(one):
        raise refuse(one)
    return _Bits(one.id, element_type, ((False, False, True), (True, False, True)))


def keeps_width(one: HloInstruction) -> bool:
    """Returns whether the elements of the instruction's result are integers and as wide as those of its operand."""
    dtype = get_dtype(one.shape)
    return dtype.kind in "iu" and dtype.itemsize == get_dtype(one.operands[0].shape).itemsize


def _count_bits(dtype: "np.dtype[Any]") -> int:
    return 8 * dtype.itemsize


def _find_constant(one: HloInstruction) -> Array | None:
    """Returns the one number that all elements of a constant have, as an array of no dimensions; None if there is no
    such number.
    """
    while one.opcode == "broadcast":
        one = one.operands[0]
    if one.opcode != "constant" or is_tuple(one.shape):
        return None
    value = load_constant(one)
    assert not isinstance(value, tuple)
    return value.reshape(-1)[0] if value.size and (value == value.reshape(-1)[0]).all() else None


def _find_word(one: HloInstruction) -> _Bits | None:
    value = _find_constant(one)
    if value is None:
        return None
    word = int(value) & ((1 << _count_bits(value.dtype)) - 1)
    sign, low = divmod(word, 1 << (_count_bits(value.dtype) - 1))
    if low not in {0, (1 << (_count_bits(value.dtype) - 1)) - 1}:
        return None
    form = (bool(sign), bool(low), bool(low))
    return _Bits(_WORD, "", (form, form))


def _find_bits(one: HloInstruction, keys: Mapping[int, _Bits]) -> _Bits | None:
    return keys[one.id] if one.id in keys else _find_word(one)


def _follow(one: HloInstruction, keys: Mapping[int, _Bits], tests: Mapping[int, _SignTest]) -> _Bits | None:
    """Returns the integer that an instruction other than a comparison makes of integers that are keys; None if it makes
    something else.
    """
    first = _find_bits(one.operands[0], keys)
    match one.opcode:
        case "bitcast" | "bitcast-convert" if first is not None and keeps_width(one):
            return first
        case "not" if first is not None:
            return replace(first, forms=_map(first, first, lambda left, _: not left))
        case "and" | "or" | "xor":
            second = _find_bits(one.operands[1], keys)
            compute = _BITWISE[one.opcode]
            return None if first is None or second is None else _join(first, second, compute)
        case "shift-right-arithmetic" if first is not None and get_dtype(one.shape).kind == "i":
            amount = _find_constant(one.operands[1])
            if amount is None or int(amount) != _count_bits(amount.dtype) - 1:
                return None
            one_sign = [(form[0], form[0], form[0]) for form in first.forms]
            return replace(first, forms=(one_sign[0], one_sign[1]))
        case "select":
            test = tests.get(one.operands[0].id)
            true, false = _find_bits(one.operands[1], keys), _find_bits(one.operands[2], keys)
            if test is None or true is None or false is None:
                return None
            if not {true.source, false.source} <= {test.source, _WORD}:
                return None
            forms = [(true if answer else false).forms[sign] for sign, answer in enumerate(test.answers)]
            return _Bits(test.source, true.element_type or false.element_type, (forms[0], forms[1]))
        case _:
            return None


def _map(first: _Bits, second: _Bits, compute: Callable[[bool, bool], bool]) -> tuple[_Form, _Form]:
    def combine(left: _Form, right: _Form) -> _Form:
        return compute(left[0], right[0]), compute(left[1], right[1]), compute(left[2], right[2])

    return combine(first.forms[0], second.forms[0]), combine(first.forms[1], second.forms[1])


def _join(first: _Bits, second: _Bits, compute: Callable[[bool, bool], bool]) -> _Bits | None:
    if _WORD not in {first.source, second.source} and first.source != second.source:
        return None
    main = second if first.source == _WORD else first
    return replace(main, forms=_map(first, second, compute))


def _test(one: HloInstruction, keys: Mapping[int, _Bits]) -> _SignTest | None:
    """Returns the comparison's answers by the sign of the float, with `_WORD` as their source if it depends on more;
    None if wide integers could give other answers.
    """
    first, second = _find_bits(one.operands[0], keys), _find_bits(one.operands[1], keys)
    if first is None or second is None:
        return None
    if first.element_type and second.element_type and first.element_type != second.element_type:
        return None
    are_one = first.source == second.source or _WORD in {first.source, second.source}
    pairs = [(0, 0), (1, 1)] if are_one else [(0, 0), (0, 1), (1, 0), (1, 1)]
    answers: list[bool] = []
    compare = _DIRECTIONS[one.proto.comparison_direction]
    is_signed = get_dtype(one.operands[0].shape).kind == "i"
    for a, b in pairs:
        left, right = first.forms[a], second.forms[b]
        found = {compare(order, 0) for order in _list_orders(left, right, is_signed=is_signed)}
        if len(found) == 1:
            answers += found
        elif left[0] != right[0] or left[1] != right[1]:
            return None
    if not are_one or len(answers) < len(pairs):
        return _SignTest(_WORD, (False, False))
    return _SignTest(second.source if first.source == _WORD else first.source, (answers[0], answers[1]))


def _list_orders(left: _Form, right: _Form, *, is_signed: bool) -> tuple[int, ...]:
    """Returns how two integers may compare: -1 if the left one is smaller, 0 if both are equal, and 1."""
    if left[0] != right[0]:
        return (-1 if left[0] == is_signed else 1,)
    one, two = left[1] == left[2], right[1] == right[2]
    if one and two:
        return (left[1] - right[1],)
    if one:
        return (0, 1) if left[1] else (-1, 0)
    if two:
        return (-1, 0) if right[1] else (0, 1)
    return (-1, 0, 1)
