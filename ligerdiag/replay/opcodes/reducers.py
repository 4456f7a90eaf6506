"""Reducers: computations that combine two values of each of `n` operands into one.

`reduce`, `reduce-window`, `scatter` and `select-and-scatter` call one. Most are a single operation, which NumPy has as a
ufunc; every other one is called with whole arrays, element by element.

What a ufunc adds up is added in f64 and rounded once; other operations on narrow floats run in f32. XLA's semantics rounds
after each addition, and a GPU adds in an order of its own in f32: the sum here is nearer to the true one than either, and
does not depend on the order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.dtypes import NARROW_FLOATS, DType, get_dtype
from ligerdiag.replay.opcodes.scope import Array, Scope

type UFunc = Any

_UFUNCS: Mapping[str, UFunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ON_PREDICATES: Mapping[str, UFunc] = {
    **_UFUNCS,
    "add": np.logical_or,
    "multiply": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
}
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reducer:
    """One reducer computation."""

    computation: int
    scope: Scope
    ufuncs: tuple[UFunc, ...]
    """One per operand; empty where the computation is not one operation per operand."""
    keeps_second: bool
    """Whether it returns its second value: a scatter that replaces."""

    def combine(self, first: Sequence[Array], second: Sequence[Array]) -> tuple[Array, ...]:
        """Element by element, by the computation itself; all arrays of one shape."""
        shape = first[0].shape
        value = self.scope.call(self.computation, (*first, *second))
        arrays = value if isinstance(value, tuple) else (value,)
        return tuple([np.broadcast_to(np.asarray(array), shape) for array in arrays])

    def is_neutral(self, inits: Sequence[Array]) -> bool:
        """Returns whether it does not matter how often the initial values are combined."""
        again = self.combine(inits, inits)
        return all(np.array_equal(a, b) for a, b in zip(again, inits, strict=True))


def parse_reducer(computation: int, count: int, scope: Scope) -> Reducer:
    """Returns the reducer of `count` operands that has that id."""
    callee = scope.module.computations[computation]
    root = callee.root
    roots = root.operands if is_tuple(root.shape) and root.opcode == "tuple" else (root,)
    parameters = callee.parameters
    found: list[UFunc] = []
    if len(roots) == count and len(parameters) == 2 * count:
        for number, result in enumerate(roots):
            ufunc = _recognise(result, parameters[number], parameters[number + count])
            if ufunc is not None:
                found.append(ufunc)
    return Reducer(
        computation=computation,
        scope=scope,
        ufuncs=tuple(found) if len(found) == count else (),
        keeps_second=tuple(r.id for r in roots) == tuple(p.id for p in parameters[count:]),
    )


def _recognise(result: HloInstruction, first: HloInstruction, second: HloInstruction) -> UFunc | None:
    """Returns the ufunc of the two parameters, in the parameters' dtype or one that widens it."""
    inner = _strip_convert(result, narrow=first)
    if len(inner.operands) != 2 or is_tuple(inner.shape):
        return None
    left, right = (_strip_convert(operand, narrow=None) for operand in inner.operands)
    if {left.id, right.id} != {first.id, second.id}:
        return None
    table = _ON_PREDICATES if get_dtype(first.shape) == np.bool_ else _UFUNCS
    return table.get(inner.opcode)


def _strip_convert(instruction: HloInstruction, *, narrow: HloInstruction | None) -> HloInstruction:
    """Returns the operand of a conversion between a narrow float and a wider one: widened, added and rounded is one
    addition.

    narrow: for a result, the parameter whose dtype it must be rounded to.
    """
    if instruction.opcode != "convert":
        return instruction
    source = instruction.operands[0]
    small, wide = (instruction, source) if narrow is not None else (source, instruction)
    if get_dtype(small.shape) in NARROW_FLOATS and get_dtype(wide.shape) in _WIDE:
        return source
    return instruction


def compute_accumulator_dtype(ufunc: UFunc, dtype: DType) -> DType:
    """Returns the dtype in which values of a dtype are combined."""
    if dtype in NARROW_FLOATS:
        return np.dtype(np.float64 if ufunc is np.add else np.float32)
    if ufunc is np.add and dtype == np.float32:
        return np.dtype(np.float64)
    if ufunc is np.add and dtype == np.complex64:
        return np.dtype(np.complex128)
    return dtype
