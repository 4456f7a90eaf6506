"""Compares the donated arguments with the outputs that have their bytes: which argument is an output computed from?

JAX pairs donated arguments with outputs by shape and order, not by the flow of data. An output that is computed from a
donated argument, and has the bytes of another one that it does not need, is *crossed*.
"""

from collections.abc import Mapping
from functools import cached_property

from ligerdiag.hlo.dataflow import Position, search
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import ShapeIndex, compute_byte_size, iterate_leaf_shapes
from ligerdiag.memory.value_uses import ValueUses


class DonatedOutputs:
    """The donated arguments of one module that outputs take."""

    def __init__(self, uses: ValueUses) -> None:
        self._uses = uses
        self._entry = uses.module.entry

    @cached_property
    def by_allocation(self) -> Mapping[int, int]:
        """Allocation of a donated argument that an output takes, to the number of that output."""
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
        """Returns a donated argument of the same size that the value is computed from, if it does not need the argument
        with that number.
        """
        reached = self._find_reached(*value)
        if reached >> number & 1:
            return None
        size = measure(self._entry.parameters[number])
        return next(
            (one for one in self.numbers if reached >> one & 1 and measure(self._entry.parameters[one]) == size), None
        )

    @cached_property
    def crossed(self) -> Mapping[int, int]:
        """A donated argument to the number of an output that is computed from it and has the bytes of another one, or that
        has its bytes and is computed from another one.
        """
        found: dict[int, int] = {}
        leaves = [index for index, _ in iterate_leaf_shapes(self._entry.root.shape)]
        for allocation, output in self.by_allocation.items():
            number = self._uses.buffers.parameters[allocation][0]
            other = self.find_crossed(self._uses.find_origin(self._entry.root, leaves[output]), number)
            if other is not None:
                found.setdefault(number, output)
                found.setdefault(other, output)
        return found

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return tuple(sorted({self._uses.buffers.parameters[one][0] for one in self.by_allocation}))

    def _find_reached(self, value: HloInstruction, index: ShapeIndex) -> int:
        """Returns the arguments that a value depends on; of a fusion with several results, those of one result."""
        fused = self._uses.module.computations[value.called_computations[0]] if value.opcode == "fusion" else None
        if fused is None or not index or fused.root.opcode != "tuple":
            return self._reached.get(value.id, 0)

        def list_operands(one: HloInstruction) -> tuple[HloInstruction, ...]:
            return one.operands

        reached = 0
        for one in search([fused.root.operands[index[0]]], list_operands):
            if one.opcode == "parameter":
                reached |= self._reached.get(value.operands[one.proto.parameter_number].id, 0)
        return reached

    @cached_property
    def _reached(self) -> Mapping[int, int]:
        """Instruction id to the arguments that it depends on, by operands of the entry: bit n is parameter n."""
        found: dict[int, int] = {}
        for one in self._entry.instructions:
            reached = 1 << one.proto.parameter_number if one.opcode == "parameter" else 0
            for operand in one.operands:
                reached |= found.get(operand.id, 0)
            found[one.id] = reached
        return found


def measure(value: HloInstruction) -> int:
    """Returns the bytes of a value."""
    return sum(compute_byte_size(shape) or 0 for _, shape in iterate_leaf_shapes(value.shape))
