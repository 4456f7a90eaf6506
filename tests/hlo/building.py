"""Builds HLO modules by hand that XLA does not produce, with one line for each instruction."""

from collections.abc import Sequence

from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import TUPLE
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloProto, ShapeProto

F32 = 11
ARENA = 1000
"""Index of the BufferAllocation that values with an offset share."""


def array(*dimensions: int) -> ShapeProto:
    return ShapeProto(element_type=F32, dimensions=dimensions)


def tuple_of(*shapes: ShapeProto) -> ShapeProto:
    return ShapeProto(element_type=TUPLE, tuple_shapes=shapes)


class Builder:
    """Collects computations, callees first; the last one is the entry. Instruction ids count from 1."""

    def __init__(self) -> None:
        self.proto = HloProto()
        self._next = 1

    def computation(self, name: str) -> HloComputationProto:
        number = len(self.proto.hlo_module.computations) + 1
        added = self.proto.hlo_module.computations.add(name=name, id=number)
        self.proto.hlo_module.entry_computation_id = number
        self.proto.hlo_module.entry_computation_name = name
        return added

    def add(
        self,
        computation: HloComputationProto,
        opcode: str,
        operands: Sequence[HloInstructionProto] = (),
        shape: ShapeProto | None = None,
        calls: Sequence[HloComputationProto] = (),
        **fields: int,
    ) -> HloInstructionProto:
        """Adds and returns an instruction; it is the root until the next one."""
        added = computation.instructions.add(
            name=f"{opcode}.{self._next}",
            opcode=opcode,
            id=self._next,
            operand_ids=[o.id for o in operands],
            shape=shape if shape is not None else array(4),
            called_computation_ids=[c.id for c in calls],
            **fields,
        )
        computation.root_id = self._next
        self._next += 1
        return added

    def schedule(self, computation: HloComputationProto, *instructions: HloInstructionProto) -> None:
        ids = [i.id for i in instructions or computation.instructions]
        self.proto.hlo_module.schedule.sequences[computation.id].instruction_ids.extend(ids)

    def define(self, instruction: HloInstructionProto, *path: int, offset: int | None = None, size: int = 16) -> int:
        """Gives storage to the value that the instruction defines at this ShapeIndex; with an offset, in the arena.

        Returns the number of its slice, which is right only if no slice is defined twice.
        """
        assignment = self.proto.buffer_assignment
        number = len(assignment.logical_buffers)
        allocations = {a.index: a for a in assignment.buffer_allocations}
        wanted = number if offset is None else ARENA
        allocation = allocations.get(wanted) or assignment.buffer_allocations.add(index=wanted)
        buffer = assignment.logical_buffers.add(id=number + 1, size=size)
        buffer.defined_at.instruction_id = instruction.id
        buffer.defined_at.shape_index.extend(path)
        allocation.assigned.add(logical_buffer_id=number + 1, offset=offset or 0, size=size)
        return number

    def bytes(self) -> bytes:
        return self.proto.SerializeToString()

    def positions(self) -> tuple[HloModule, Positions]:
        module, buffers = parse_hlo(self.bytes())
        assert buffers is not None
        return module, Positions(module, buffers)


def find(module: HloModule, message: HloInstructionProto) -> HloInstruction:
    """Returns the parsed instruction of this message."""
    return next(i for c in module.computations.values() for i in c.instructions if i.id == message.id)
