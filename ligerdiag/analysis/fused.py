"""Inside a fusion: dependence sets of each fused instruction, so that the outputs of one fusion are told apart.

Most fusions need not be followed so: see `fusion_summaries`.
"""

from collections.abc import Mapping
from typing import Protocol

from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.memory import Read
from ligerdiag.analysis.parts import PartedValue, Parts, follow_parts, union_of
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple, iterate_leaves

_PLAIN = having(Trait.ONE_ARRAY, Trait.ARRAY_OF_ARRAYS, Trait.FROM_NOTHING) - {"concatenate"}
"""Opcodes that compute one array of all their operands: the set is the union, if no pieces are told apart."""


class Surroundings(Protocol):
    """What a fusion needs of the evaluation around it."""

    def conclude(
        self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: tuple[Read, ...]
    ) -> Labels:
        """The set of an operation's result, with the labels that start there; keeps what a tagged operation depends on."""
        ...

    def find_started(self, instruction: HloInstruction) -> Labels:
        """The labels that start at this instruction."""
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
        reads: tuple[Read, ...],
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
        given: list[list[Labels]] = [[] for _ in self._fusion.operands]
        for number, _, labels in self._reads:
            given[number].append(labels)
        for number, operand in enumerate(self._fusion.operands):
            sets = given[number]
            if number in self._parts:
                arguments.append(self._parts[number].add(sets[0] & ~self._parts[number].union))
            else:
                arguments.append(tuple(sets) if is_tuple(operand.shape) else sets[0])
        callee = self._module.computations[self._fusion.called_computations[0]]
        return _flatten(self._run(callee, arguments))

    def _run(self, computation: HloComputation, arguments: list[FusedValue]) -> FusedValue:
        values: dict[int, FusedValue] = {}
        conclude, fusion, reads = self._surroundings.conclude, self._fusion, self._reads
        for instruction in computation.instructions:
            labels: FusedValue | None = None
            if instruction.opcode in _PLAIN:
                labels = 0
                for operand in instruction.operands:
                    value = values[operand.id]
                    if not isinstance(value, int):
                        labels = None
                        break
                    labels |= value
            if labels is None:
                values[instruction.id] = self._evaluate(instruction, values, arguments)
            else:
                values[instruction.id] = conclude(instruction, fusion, labels, reads)
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
        value: PartedValue | None = None
        if not is_tuple(instruction.shape) and not any(isinstance(operand, tuple) for operand in operands):
            value = follow_parts(instruction, [o for o in operands if not isinstance(o, tuple)])
        if opcode == "custom-call":
            value = self._surroundings.call_fused(instruction, sets)
        elif value is None:
            value = 0
            for one in sets:
                value |= one
        concluded = self._surroundings.conclude(instruction, self._fusion, union_of(value), self._reads)
        value = concluded if isinstance(value, int) else value.add(self._surroundings.find_started(instruction))
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
