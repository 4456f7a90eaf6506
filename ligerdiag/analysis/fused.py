"""Inside a fusion: dependence sets of each fused instruction, so that the outputs of one fusion are told apart."""

from typing import Protocol

from ligerdiag.analysis.labels import Labels
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


type FusedValue = int | tuple["FusedValue", ...]
"""An array's set, or a tuple of values."""


class FusionEvaluator:
    """Evaluates one fusion instruction; nested fusions and calls are evaluated in turn."""

    def __init__(
        self,
        module: HloModule,
        surroundings: Surroundings,
        fusion: HloInstruction,
        reads: list[Read],
    ) -> None:
        self._module = module
        self._surroundings = surroundings
        self._fusion = fusion
        self._reads = reads

    def run(self) -> list[Labels]:
        """Sets of the fusion's leaves, in order."""
        arguments: list[FusedValue] = []
        for number, operand in enumerate(self._fusion.operands):
            sets = [labels for n, _, labels in self._reads if n == number]
            leaves = list(iterate_leaves(operand.shape))
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
        labels = 0
        for operand in operands:
            labels |= _union(operand)
        if opcode == "custom-call":
            labels = self._surroundings.call_fused(instruction, [_union(operand) for operand in operands])
        labels |= self._surroundings.carried(instruction)
        self._surroundings.sight(instruction, self._fusion, labels, self._reads)
        labels |= self._surroundings.marks_of(instruction)
        if is_tuple(instruction.shape):
            return tuple([labels for _ in iterate_leaves(instruction.shape)])
        return labels


def _union(value: FusedValue) -> Labels:
    if isinstance(value, int):
        return value
    labels = 0
    for child in value:
        labels |= _union(child)
    return labels


def _flatten(value: FusedValue) -> list[Labels]:
    if isinstance(value, int):
        return [value]
    found: list[Labels] = []
    for child in value:
        found += _flatten(child)
    return found
