"""Positions in memory: which slice of the buffer assignment a value stands in, whatever instruction passes it on.

XLA's buffer assignment lists definitions only. A position that is none is followed (see `dataflow`) to the first that is:
through bitcasts, barriers, tuples, calls, the first branch of a conditional, what a loop starts from, and asynchronous
operations. Where the buffer assignment has a phi for a loop, that is a definition, and the walk ends there.
"""

from collections.abc import Mapping

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Dataflow, Position, Through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.operand_aliases import InvalidAlias
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

type Definition = tuple[int, ShapeIndex]
"""Id of the instruction in whose result a value first stands, and which leaf of it."""

PASSED_ON = Through(
    bitcasts=True,
    barriers=True,
    tuples=True,
    calls=True,
    branches=True,
    loop_entry=True,
    arguments=True,
    asynchronous=True,
)
"""What shares storage with what it is made of."""
_MAX_STEPS = 100_000


class Positions:
    """Definitions and slice numbers by position, found on demand and kept."""

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._flow = Dataflow(module, PASSED_ON)
        self._buffers = buffers
        self._definitions: dict[int, Mapping[ShapeIndex, int]] = {}
        self._resolved: dict[Definition, Definition] = {}
        self._leaves: dict[int, tuple[int | None, ...]] = {}

    def locate(self, instruction: HloInstruction) -> tuple[int | None, ...]:
        """Slice number of each leaf of the instruction's shape, in order; None where there is no place."""
        found = self._leaves.get(instruction.id)
        if found is None:
            defined = self._buffers.definitions.get(instruction.id, ())
            if len(defined) == 1 and not defined[0][0] and not is_tuple(instruction.shape):
                found = (defined[0][1],)
            else:
                found = tuple([self.find(instruction, index) for index in iterate_leaves(instruction.shape)])
            self._leaves[instruction.id] = found
        return found

    def find(self, instruction: HloInstruction, index: ShapeIndex) -> int | None:
        """Slice number where this position stands."""
        return self._find_slice(*self.resolve(instruction, index))

    def resolve(self, instruction: HloInstruction, index: ShapeIndex) -> Definition:
        """The definition of the value that stands at this position; where none has a slice, the end of the walk."""
        passed: list[Definition] = []
        position: Position | None = (instruction, index)
        found: Definition = (instruction.id, index)
        while position is not None and len(passed) < _MAX_STEPS:
            found = position[0].id, position[1]
            known = self._resolved.get(found)
            if known is not None:
                found = known
                break
            passed.append(found)
            is_defined = self._find_slice(*found) is not None
            position = None if is_defined else next(self._flow.list_sources(*position), None)
        self._resolved.update(dict.fromkeys(passed, found))
        return found

    def _find_slice(self, instruction: int, index: ShapeIndex) -> int | None:
        defined = self._buffers.definitions.get(instruction)
        if not defined:
            return None
        by_index = self._definitions.get(instruction)
        if by_index is None:
            by_index = self._definitions[instruction] = dict(defined)
        return by_index.get(index)


def take_unplaced_aliases(module: HloModule, buffers: BufferAssignment) -> None:
    """Removes the declared aliases of custom calls whose two buffers stand in different bytes: (4) of `operand_aliases`."""
    positions = Positions(module, buffers)
    for _, call in module.iterate_custom_calls():
        entries = call.proto.output_operand_aliasing
        for number in reversed(range(len(entries))):
            entry = entries[number]
            output = tuple(entry.output_shape_index)
            operand = positions.find(call.operands[entry.operand_index], tuple(entry.operand_shape_index))
            place = positions.find(call, output)
            if place is not None and operand is not None and place != operand:
                reason = "the buffer assignment has the two in different bytes"
                module.invalid_aliases.append(
                    InvalidAlias(instruction=call.id, operand=entry.operand_index, output=output, reason=reason)
                )
                del entries[number]
