"""Finds where the program itself makes the first NaN: after it, no number can be told from another.

A constant that is all NaN does not count, nor do operations that only move it: JAX writes one beside every lookup that
may be out of range. An operation that chooses it does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.source import find_user_line
from ligerdiag.outcomes import Attribution, OutputNumbers
from ligerdiag.replay.cells import Cells, list_cells
from ligerdiag.replay.opcodes.scope import Array

_MOVES = having(Trait.NO_NEW_NAN)


@dataclass(slots=True, eq=False)
class NanWatch:
    """Sees the values of a run as they come; `first` is what made the first NaN."""

    first: HloInstruction | None = None
    _is_given: bool = field(default=False)

    def before(self, operands: Iterable[Cells]) -> None:
        """Notes the operands of the next operation."""
        self._is_given = self.first is None and any(_is_partly_nan(array) for array in _list_arrays(operands))

    def after(self, instruction: HloInstruction, values: Iterable[Cells]) -> None:
        """Notes the operation's result, and its operands if it may have overwritten them."""
        if self.first is None and not self._is_given and instruction.opcode not in _MOVES:
            arrays = _list_arrays(values)
            self.first = instruction if any(map(_has_nan, arrays)) else None


def needs_explanation(numbers: Mapping[str, OutputNumbers], intended: Mapping[str, Array]) -> bool:
    """Returns whether an output is undecided because program order makes a NaN in it."""
    return any(one.attribution is Attribution.UNDECIDED and _has_nan(intended[name]) for name, one in numbers.items())


def describe_first_nan(module: HloModule, first: HloInstruction | None, inputs: Mapping[str, Array]) -> str:
    """Returns one line: which operation made it, or which argument holds it."""
    given = next((name for name, array in inputs.items() if _has_nan(array)), None)
    if given is not None:
        return f"argument `{given}` holds a NaN: give it other values, or a `Draw`"
    if first is None:
        return "the program as written computes a NaN: give its arguments other values, or a `Draw`"
    line = find_user_line(module, first)
    place = "" if line is None else f" at {line.file}:{line.line}"
    what = f"`%{first.name}` ({first.opcode})"
    return f"the program as written makes its first NaN in {what}{place}: give its arguments other values, or a `Draw`"


def _list_arrays(values: Iterable[Cells]) -> list[Array]:
    return [np.asarray(cell.array) for value in values for cell in list_cells(value)]


def _is_nan(array: Array) -> Array | None:
    if array.dtype.kind in "biu" or not array.size:
        return None
    return np.isnan(array.astype(np.complex64 if array.dtype.kind == "c" else np.float32))


def _has_nan(array: Array) -> bool:
    found = _is_nan(array)
    return found is not None and bool(found.any())


def _is_partly_nan(array: Array) -> bool:
    """Returns whether some, but not all, elements are NaN: an all-NaN array is a placeholder."""
    found = _is_nan(array)
    return found is not None and bool(found.any()) and not bool(found.all())
