"""Inside a fusion: dependence sets of each fused instruction, so that the outputs of one fusion are told apart."""

from collections.abc import Mapping
from typing import Protocol

from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.parts import PartedValue, Parts, follow_parts, union_of
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import is_tuple, iterate_leaves

type Read = tuple[int, int, Labels]
"""(operand_number of the scheduled instruction, slice number, set that stood there)."""


class Surroundings(Protocol):
    """What a fusion needs of the evaluation around it."""

    def carried(self, instruction: HloInstruction) -> Labels:
        """ORIG labels that start at this instruction."""
        ...

    def sight(self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: list[Read]) -> None:
        """Keep what a tagged operation depends on."""
        ...

    def marks_of(self, instruction: HloInstruction) -> Labels:
        """Marks that this instruction's results get."""
        ...

    def call_fused(self, call: HloInstruction, operands: list[Labels]) -> Labels:
        """Run a custom call that stands inside a fusion; returns the set of its results."""
        ...


type FusedValue = int | Parts | tuple["FusedValue", ...]
"""An array's set, its pieces' sets, or a tuple of values."""


class FusionEvaluator:
    """Evaluates one fusion instruction; nested fusions and calls are evaluated in turn."""

    def __init__(
        self,
        module: HloModule,
        surroundings: Surroundings,
        fusion: HloInstruction,
        reads: list[Read],
        parts: Mapping[int, Parts],
    ) -> None:
        """`parts`: operand_number to the operand's pieces, where they are known."""
        self._module = module
        self._surroundings = surroundings
        self._fusion = fusion
        self._reads = reads
        self._parts = parts

    def run(self) -> list[PartedValue]:
        """Sets of the fusion's leaves, in order."""
        arguments: list[FusedValue] = []
        for number, operand in enumerate(self._fusion.operands):
            sets = [labels for n, _, labels in self._reads if n == number]
            leaves = list(iterate_leaves(operand.shape))
            if number in self._parts:
                arguments.append(self._parts[number].add(sets[0] & ~self._parts[number].union))
            else:
                arguments.append(sets[0] if leaves == [()] else tuple(sets))
        callee = self._module.computations[self._fusion.called_computations[0]]
        return _flatten(self._run(callee, arguments))

    def _run(self, computation: HloComputation, arguments: list[FusedValue]) -> FusedValue:
        values: dict[int, FusedValue] = {}
        for instruction in computation.instructions:
            values[instruction.id] = self._evaluate(instruction, values, arguments)
        return values[computation.root.id]

    def _evaluate(
        self, instruction: HloInstruction, values: dict[int, FusedValue], arguments: list[FusedValue]
    ) -> FusedValue:
        opcode = instruction.opcode
        if opcode == "parameter":
            return arguments[instruction.proto.parameter_number]
        operands = [values[o.id] for o in instruction.operands]
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element":
            whole = operands[0]
            if isinstance(whole, tuple):
                return whole[instruction.proto.tuple_index]
            return whole
        if opcode in ("fusion", "call"):
            return self._run(self._module.computations[instruction.called_computations[0]], operands)
        sets = [_union(operand) for operand in operands]
        added = self._surroundings.carried(instruction)
        value: PartedValue | None = None
        if not is_tuple(instruction.shape) and not any(isinstance(operand, tuple) for operand in operands):
            value = follow_parts(instruction, [o for o in operands if not isinstance(o, tuple)])
        if opcode == "custom-call":
            value = self._surroundings.call_fused(instruction, sets)
        elif value is None:
            value = 0
            for one in sets:
                value |= one
        self._surroundings.sight(instruction, self._fusion, union_of(value) | added, self._reads)
        added |= self._surroundings.marks_of(instruction)
        value = value | added if isinstance(value, int) else value.add(added)
        if is_tuple(instruction.shape):
            return tuple([value for _ in iterate_leaves(instruction.shape)])
        return value


def _union(value: FusedValue) -> Labels:
    if not isinstance(value, tuple):
        return union_of(value)
    labels = 0
    for child in value:
        labels |= _union(child)
    return labels


def _flatten(value: FusedValue) -> list[PartedValue]:
    if not isinstance(value, tuple):
        return [value]
    found: list[PartedValue] = []
    for child in value:
        found += _flatten(child)
    return found
