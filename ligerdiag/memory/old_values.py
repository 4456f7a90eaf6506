"""Finds the instructions that write to the bytes of a value while a copy keeps the value for its readers.

The buffer assignment decides which bytes a value has. A write is a definition of a value in overlapping bytes by any
operation, also by one inside of a loop, a branch or an asynchronous operation.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.memory.value_uses import UseRole, ValueUses

_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)


class OldValues:
    """Finds the writes to the bytes of copied values in one module."""

    def __init__(self, uses: ValueUses) -> None:
        self._uses = uses

    @cached_property
    def _ends(self) -> Mapping[int, int]:
        """Maps the id of the start of an asynchronous operation to the time of its done."""
        times, found = self._uses.times, dict[int, int]()
        for computation in self._uses.computations:
            for one in computation.instructions:
                if one.opcode == "async-done":
                    found[one.operands[0].id] = times.get(one.id, 0)
        return found

    def find_end(self, one: HloInstruction) -> int:
        """Returns the time at which an instruction has finished reading its operands, in the schedule of its computation.
        This is its own time. For an asynchronous start, it is the time of the matching done.
        """
        return self._ends.get(one.id, self._uses.times.get(one.id, 0))

    def find_last_use(self, value: HloInstruction, index: ShapeIndex = ()) -> int:
        """Returns the time of the last use of a value, in the schedule of its computation. A value that the computation
        returns is used at the end of the schedule.
        """
        home = self._uses.module.homes[value.id]
        found = self._uses.times.get(value.id, 0)
        for use in self._uses.list_uses(value, index):
            found = max(found, len(home.instructions) if use.role is UseRole.RESULT else self.find_end(use.user))
        return found

    def list_writers(
        self, computation: HloComputation, value: HloInstruction, index: ShapeIndex, *, after: int, until: int
    ) -> Iterator[HloInstruction]:
        """Yields the instructions of a computation that write to the bytes of a value. after, until: only instructions
        with an index in the computation's schedule above `after`, and not above `until`, count.
        """
        number = self._uses.positions.find(value, index)
        if number is None:
            return
        bytes_of_it = frozenset(self._uses.buffers.overlapping[number])
        steps = computation.sequence or computation.instructions
        yield from (one for one in steps[after + 1 : until + 1] if self._writes(one, bytes_of_it))

    def _writes(self, one: HloInstruction, numbers: frozenset[int]) -> bool:
        if one.opcode == "parameter":
            return False
        if any(number in numbers for _, number in self._uses.buffers.definitions.get(one.id, ())):
            return True
        if one.opcode not in _RUNS_SCHEDULED:
            return False
        called = [self._uses.module.computations[number] for number in one.called_computations]
        return any(self._writes(inner, numbers) for computation in called for inner in computation.instructions)
