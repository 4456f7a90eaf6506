"""Which instruction makes a value, and which value a kernel's operand is."""

from collections.abc import Mapping

from ligerdiag.analysis.writes import Frames
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Position, Positions
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

type Definition = tuple[int, ShapeIndex]
"""Id of the instruction in whose result the value first stands, and which leaf of it."""


class Definitions:
    """Follows positions to where the buffer assignment defines their value."""

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._positions = Positions(module, buffers)
        self._defined: Mapping[int, frozenset[ShapeIndex]] = {
            number: frozenset(index for index, _ in defined) for number, defined in buffers.definitions.items()
        }

    def resolve(self, instruction: HloInstruction, index: ShapeIndex) -> Definition:
        """The definition of the value that stands at this position."""
        position: Position | None = (instruction, index)
        last = (instruction.id, index)
        while position is not None:
            last = (position[0].id, position[1])
            if position[1] in self._defined.get(position[0].id, ()):
                return last
            position = self._positions.follow(*position)
        return last

    def find_slices(self, value: HloInstruction) -> frozenset[int]:
        """Numbers of the slices that the value stands in."""
        found = (self._positions.find(value, index) for index in iterate_leaves(value.shape))
        return frozenset(number for number in found if number is not None)

    def find_slice(self, value: HloInstruction, index: ShapeIndex) -> int | None:
        """Number of the slice that this leaf of the value stands in."""
        return self._positions.find(value, index)


def find_operand(frames: Frames, operand: int) -> Position:
    """The value that the kernel gets, outside of the fusion that may hold the kernel (see `matching`)."""
    value, index = frames[-1].instruction.operands[operand], ()
    for outer in reversed(frames[:-1]):
        if outer.instruction.opcode != "fusion":
            break
        while value.opcode != "parameter":
            if value.opcode == "get-tuple-element":
                index = (value.proto.tuple_index, *index)
            value = value.operands[0]
        value = outer.instruction.operands[value.proto.parameter_number]
    return value, index
