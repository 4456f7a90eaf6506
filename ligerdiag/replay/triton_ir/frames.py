"""Activations of functions, and what is said of an operation that cannot be evaluated."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.effects.ttir.module import Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.accesses.memory import Memory
from ligerdiag.replay.triton_ir.code import Code
from ligerdiag.replay.triton_ir.values import Active, Value, select_programs, to_array


class LocatedError(NotCoveredError):
    """A NotCoveredError that says its line already."""


@dataclass(slots=True, eq=False)
class Frame:
    """One activation of a function."""

    code: Code
    values: dict[int, Value]
    programs: int
    depth: int
    memory: Memory | None
    """None in a combining function."""
    merges: bool = False
    """Whether this block has run before."""
    returned: list[tuple[Active, list[Value]]] = field(default_factory=list[tuple[Active, list[Value]]])

    def take(self, numbers: Sequence[int]) -> list[Value]:
        """Returns these values."""
        return [self.values[number] for number in numbers]

    def put(self, numbers: Sequence[int], values: Sequence[Value], active: Active) -> None:
        """Sets these values, of the active programs where the block has run before."""
        if len(numbers) != len(values):
            raise NotCoveredError("an operation with another number of results than it gives")
        for number, value in zip(numbers, values, strict=True):
            old = self.values.get(number) if self.merges and active is not None else None
            self.values[number] = value if old is None or active is None else select_programs(active, value, old)


class Captured(dict[int, Value]):
    """The values of a combining function: its own, and scalars from around it, each for its program's elements."""

    def __init__(self, outer: dict[int, Value], programs: int, size: int) -> None:
        super().__init__()
        self._outer, self._programs, self._size = outer, programs, size

    def __missing__(self, number: int) -> Value:
        array = to_array(self._outer[number])
        if array.ndim > 1:
            raise NotCoveredError("a combining function that takes a tensor from around it")
        if array.size > 1:
            array = np.repeat(np.broadcast_to(array, (self._programs,)), self._size // self._programs)
        self[number] = array
        return array


def narrow_active(active: Active, gate: Array, programs: int) -> Active:
    """Returns the active programs where the condition holds."""
    chosen = np.broadcast_to(gate, (programs,))
    chosen = chosen if active is None else chosen & active
    return None if bool(chosen.all()) else chosen


def say_place(op: Operation | None) -> str:
    """Returns the place of an operation, to be put behind what is said of it."""
    return f" ({op.place.file}:{op.place.line})" if op is not None and op.place is not None else ""
