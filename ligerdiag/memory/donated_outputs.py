"""Finds the outputs that are in the bytes of one donated argument, but are computed from a different one.

JAX pairs donated arguments with outputs by shape and order, not by the flow of data. An output is *crossed* if it is
computed from one donated argument, and has the bytes of another donated argument that it does not need.
"""

from collections.abc import Mapping
from functools import cached_property

from ligerdiag.hlo.dataflow import Position, list_operands, search
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import ShapeIndex, compute_byte_size, iterate_leaf_shapes
from ligerdiag.memory.value_uses import ValueUses


class DonatedOutputs:
    """The outputs of one module that are in the bytes of donated arguments. Finds those that are computed from a different
    donated argument.
    """

    def __init__(self, uses: ValueUses) -> None:
        self._uses = uses
        self._entry = uses.module.entry

    @cached_property
    def by_allocation(self) -> Mapping[int, int]:
        """Returns the number of the output in the bytes of each donated argument, by the index of its allocation."""
        leaves = [index for index, _ in iterate_leaf_shapes(self._entry.root.shape)]
        taken = {
            (entry.parameter_number, tuple(entry.parameter_shape_index)): tuple(entry.output_shape_index)
            for entry in self._uses.module.input_output_alias.entries
        }
        found: dict[int, int] = {}
        for allocation, parameter in self._uses.buffers.parameters.items():
            output = taken.get(parameter)
            if output is not None and output in leaves:
                found[allocation] = leaves.index(output)
        return found

    def find_crossed(self, value: Position, number: int) -> int | None:
        """Returns a donated argument from which a value is computed although it has the bytes of a different one.

        number: the argument whose bytes the value has. The returned argument has the same size. First looks at the arguments
        that the value's last operation reads, then at all arguments on which the value depends. Returns None if there is no
        such argument, or if the value needs argument `number`.
        """
        direct, reached = self._find_reached(*value)
        size = measure(self._entry.parameters[number])
        for found in (direct, reached):
            if found >> number & 1:
                return None
            for one in self.numbers:
                if found >> one & 1 and measure(self._entry.parameters[one]) == size:
                    return one
        return None

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return tuple(sorted({self._uses.buffers.parameters[one][0] for one in self.by_allocation}))

    def _find_reached(self, value: HloInstruction, index: ShapeIndex) -> tuple[int, int]:
        """Returns two bit sets, in which bit n is parameter n. The first has the arguments that the last operation of a
        value reads, the second all arguments that the value depends on.

        If the last operation is a fusion with several results, only the operands count that the result at `index` needs.
        """
        operands = value.operands
        fused = self._uses.module.computations[value.called_computations[0]] if value.opcode == "fusion" else None
        if fused is not None and index and fused.root.opcode == "tuple":
            needed = search([fused.root.operands[index[0]]], list_operands)
            operands = tuple([operands[one.proto.parameter_number] for one in needed if one.opcode == "parameter"])
        direct = reached = 0
        for operand in operands:
            reached |= self._reached.get(operand.id, 0)
            origin = self._uses.find_origin(operand)[0]
            if origin.opcode == "parameter":
                direct |= 1 << origin.proto.parameter_number
        return direct, reached

    @cached_property
    def _reached(self) -> Mapping[int, int]:
        """Maps the id of each instruction of the entry computation to the arguments that it depends on: bit n is
        parameter n.
        """
        found: dict[int, int] = {}
        for one in self._entry.instructions:
            reached = 1 << one.proto.parameter_number if one.opcode == "parameter" else 0
            for operand in one.operands:
                reached |= found.get(operand.id, 0)
            found[one.id] = reached
        return found


def measure(value: HloInstruction) -> int:
    """Returns the size of a value in bytes."""
    return sum(compute_byte_size(shape) or 0 for _, shape in iterate_leaf_shapes(value.shape))
