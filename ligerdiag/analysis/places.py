"""Where the values of a schedule stand, as every evaluation of it asks: looked up once, and kept for all of them."""

from dataclasses import dataclass, field

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.positions import Positions

type OperandPlace = tuple[int, int]
"""(operand_number, slice number)."""


@dataclass(slots=True, eq=False)
class Places:
    """Slice numbers of the values of one module; a value without a place has a negative number of its own."""

    buffers: BufferAssignment
    positions: Positions
    _leaves: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _operands: dict[int, tuple[OperandPlace, ...]] = field(default_factory=dict[int, tuple[OperandPlace, ...]])
    _read: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _defined: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _placeless: int = 0

    def locate(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Slice number of each leaf of the instruction's shape, in order."""
        found = self._leaves.get(instruction.id)
        if found is None:
            places = self.positions.locate(instruction)
            found = tuple([self._number() if place is None else place for place in places])
            self._leaves[instruction.id] = found
        return found

    def _number(self) -> int:
        self._placeless -= 1
        return self._placeless

    def list_operands(self, instruction: HloInstruction) -> tuple[OperandPlace, ...]:
        """Every leaf of every operand."""
        found = self._operands.get(instruction.id)
        if found is None:
            found = tuple(
                [
                    (number, place)
                    for number, operand in enumerate(instruction.operands)
                    for place in self.locate(operand)
                ]
            )
            self._operands[instruction.id] = found
        return found

    def list_read(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Slice numbers of every leaf of every operand."""
        found = self._read.get(instruction.id)
        if found is None:
            operands = instruction.operands
            if len(operands) == 1:
                found = self.locate(operands[0])
            else:
                found = tuple([place for operand in operands for place in self.locate(operand)])
            self._read[instruction.id] = found
        return found

    def list_defined(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Slice numbers that the instruction writes as its own result."""
        found = self._defined.get(instruction.id)
        if found is None:
            defined = self.buffers.definitions.get(instruction.id)
            if defined is not None:
                found = tuple([number for _, number in defined])
            else:
                found = tuple([number for number in self.locate(instruction) if number < 0])
            self._defined[instruction.id] = found
        return found
