"""Computes dependence sets inside fusions: of each fused instruction in turn, or from a summary of the fusion that is
made once and used often.

A dependence set says on which hidden writes a value depends (see `labels`). `FusionEvaluator` follows a fusion
instruction by instruction, so that each output of the fusion has a set of its own. A schedule is evaluated several
times, and the body of a loop several times in each evaluation. From one time to the next, only the sets of the fusion's
operands differ, if

- every fused instruction has one array, whose set is the union of its operands' sets; only the root may be a tuple of
  such arrays;
- there are no pieces (see `pieces`): no concatenation, and no operand in pieces;
- no kernel is called inside, and there is no nested computation;
- no label starts inside.

A fusion with the first three properties has a `FusionSummary`; the caller checks that no label starts inside and that
no operand is in pieces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ligerdiag.analysis.evaluation.label_memory import Places, Read
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.pieces import Pieces, PiecewiseLabels, follow_pieces, union_of
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

_FOLLOWED = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT, Trait.CALLEE_TAKES_OPERANDS) | {"concatenate", "custom-call"}
"""A fusion that contains an instruction with one of these opcodes has no summary, unless the instruction is a tuple at
the root.
"""
_ONE_ARRAY = having(Trait.ONE_ARRAY)

UPDATES = frozenset({"dynamic-update-slice"})

type _Mask = int
"""A set of parameter numbers, one bit each."""


@dataclass(slots=True, eq=False)
class FusionSummary:
    """Says from which of a fusion's parameters each value in the fusion is computed. A set of parameters is called a
    *combination*; each distinct combination has a number.
    """

    combinations: tuple[tuple[int, ...], ...]
    """For each combination, the numbers of its parameters."""
    computed: frozenset[int]
    """Ids of the fused instructions that compute something; a label could start at them."""
    tagged: tuple[tuple[TagPath, HloInstruction, int], ...]
    """Each tagged instruction, as (tag path, instruction, number of its combination)."""
    results: tuple[tuple[int, int], ...]
    """Each result that the fusion defines, as (number of its memory slice, number of its combination), in the order of
    the buffer assignment.
    """

    def unite(self, given: list[Labels]) -> list[Labels]:
        """Returns the dependence set of each combination: the union of the dependence sets of its parameters. given: the
        dependence set of each operand of the fusion.
        """
        return [unite([given[number] for number in numbers]) for numbers in self.combinations]


@dataclass(slots=True, eq=False)
class FusionSummaries:
    """The summaries of the fusions of one module. Each is made when it is first needed, and kept for all evaluations."""

    module: HloModule
    places: Places
    _found: dict[int, FusionSummary | None] = field(default_factory=dict[int, FusionSummary | None])

    def find(self, fusion: HloInstruction) -> FusionSummary | None:
        """Returns the fusion's summary; None if the fusion has none and must be followed instruction by instruction."""
        if fusion.id not in self._found:
            self._found[fusion.id] = self._summarize(fusion)
        return self._found[fusion.id]

    def _summarize(self, fusion: HloInstruction) -> FusionSummary | None:
        computation = self.module.computations[fusion.called_computations[0]]
        masks = _find_masks(fusion, computation)
        if masks is None:
            return None
        root = computation.root
        leaves = [masks.get(one.id) for one in root.operands] if root.opcode == "tuple" else [masks.get(root.id)]
        places = self.places.locate(fusion)
        if None in leaves or len(places) != len(leaves):
            return None
        by_place = dict(zip(places, leaves, strict=True))
        defined = self.places.buffers.definitions.get(fusion.id)
        results = [(n, by_place.get(n, 0)) for _, n in defined] if defined else list(zip(places, leaves, strict=True))
        numbers: dict[_Mask, int] = {}
        tags = self.module.tags
        computed = [one for one in computation.instructions if one.opcode not in ("parameter", "tuple")]
        return FusionSummary(
            computed=frozenset([one.id for one in computed]),
            tagged=tuple(
                [
                    (tags[one.id], one, numbers.setdefault(masks[one.id], len(numbers)))
                    for one in computed
                    if one.id in tags
                ]
            ),
            results=tuple([(place, numbers.setdefault(mask or 0, len(numbers))) for place, mask in results]),
            combinations=tuple([tuple(n for n in range(mask.bit_length()) if mask >> n & 1) for mask in numbers]),
        )


def _find_masks(fusion: HloInstruction, computation: HloComputation) -> dict[int, _Mask] | None:
    """Maps the id of each fused instruction, except a tuple at the root, to the parameters from which it is computed,
    as bits; None if the fusion can have no summary.
    """
    if any(is_tuple(operand.shape) for operand in fusion.operands):
        return None
    masks: dict[int, _Mask] = {}
    for instruction in computation.instructions:
        opcode = instruction.opcode
        if opcode == "parameter":
            number = instruction.proto.parameter_number
            if not 0 <= number < len(fusion.operands):
                return None
            masks[instruction.id] = 1 << number
        elif opcode not in _FOLLOWED and (opcode in _ONE_ARRAY or not is_tuple(instruction.shape)):
            mask = 0
            for operand in instruction.operands:
                if operand.id not in masks:
                    return None
                mask |= masks[operand.id]
            masks[instruction.id] = mask
        elif opcode != "tuple" or instruction is not computation.root:
            return None
    return masks


_PLAIN = having(Trait.ONE_ARRAY, Trait.ARRAY_OF_ARRAYS, Trait.FROM_NOTHING) - {"concatenate"}
"""Opcodes that compute one array from all their operands: the dependence set of the result is the union of the
operands' sets, and has no pieces.
"""


class FusionEnvironment(Protocol):
    """The methods that `FusionEvaluator` calls while it evaluates a fusion. The schedule's evaluation has them."""

    def finish_fused(
        self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: tuple[Read, ...]
    ) -> Labels:
        """Returns the dependence set of a fused instruction's result, and records it if the instruction has a tag.

        The set is `labels`, the union of the operands' sets, with the labels that start at the instruction itself.
        scheduled: the fusion. reads: the arrays that the fusion reads.
        """
        ...

    def find_started(self, instruction: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]) -> Labels:
        """Returns the labels and marks that start at an instruction. `finish_fused` adds them to its dependence set."""
        ...

    def find_replaced(self, update: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]) -> Labels:
        """Returns the labels of the hidden writes of which an update of a slice replaces every element (see
        `replaced_slices`). scheduled: the fusion. reads: the arrays that the fusion reads.
        """
        ...

    def call_fused(self, call: HloInstruction, operands: list[Labels]) -> Labels:
        """Records the effects of a custom call inside of a fusion, and returns the dependence set of the call's results.
        operands: the dependence set of each operand.
        """
        ...

    def list_missed(self, call: HloInstruction) -> Mapping[ShapeIndex, Labels]:
        """Finds the outputs of a custom call that miss the kernel's write. They are declared to alias an operand, but have
        bytes of their own; the kernel writes the operand's bytes. Maps the index of each output to ORIG labels, which say
        that it depends on the contents from before the write.
        """
        ...


type FusedValue = int | Pieces | tuple["FusedValue", ...]
"""The dependence set of an array in a fusion, or one set for each piece of the array, or a tuple of such values."""


@dataclass(slots=True, eq=False)
class FusionEvaluator:
    """Evaluates one fusion instruction by instruction, with the fusions and calls nested in it."""

    _module: HloModule
    _surroundings: FusionEnvironment
    _fusion: HloInstruction
    _reads: tuple[Read, ...]
    _pieces: Mapping[int, Pieces]
    """Maps the number of an operand to its pieces (parts with separate dependence sets), if they are known."""

    def run(self) -> list[PiecewiseLabels]:
        arguments: list[FusedValue] = []
        given: list[list[Labels]] = [[] for _ in self._fusion.operands]
        for number, _, labels in self._reads:
            given[number].append(labels)
        for number, operand in enumerate(self._fusion.operands):
            sets = given[number]
            if number in self._pieces:
                arguments.append(self._pieces[number].add(sets[0] & ~self._pieces[number].union))
            else:
                arguments.append(tuple(sets) if is_tuple(operand.shape) else sets[0])
        callee = self._module.computations[self._fusion.called_computations[0]]
        return _flatten(self._run(callee, arguments))

    def _run(self, computation: HloComputation, arguments: list[FusedValue]) -> FusedValue:
        values: dict[int, FusedValue] = {}
        finish_fused, fusion, reads = self._surroundings.finish_fused, self._fusion, self._reads
        for instruction in computation.instructions:
            labels: FusedValue | None = None
            if instruction.opcode in _PLAIN and instruction.opcode not in UPDATES:
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
                values[instruction.id] = finish_fused(instruction, fusion, labels, reads)
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
            return whole[instruction.proto.tuple_index] if isinstance(whole, tuple) else whole
        if opcode in ("fusion", "call"):
            return self._run(self._module.computations[instruction.called_computations[0]], operands)
        sets = [_union(operand) for operand in operands]
        if opcode in UPDATES and (replaced := self._surroundings.find_replaced(instruction, self._fusion, self._reads)):
            labels = unite([sets[0] & ~replaced, *sets[1:]])
            return self._surroundings.finish_fused(instruction, self._fusion, labels, self._reads)
        value: PiecewiseLabels | None = None
        if not is_tuple(instruction.shape) and not any(isinstance(operand, tuple) for operand in operands):
            value = follow_pieces(instruction, [o for o in operands if not isinstance(o, tuple)])
        if opcode == "custom-call":
            value = self._surroundings.call_fused(instruction, sets)
        elif value is None:
            value = unite(sets)
        concluded = self._surroundings.finish_fused(instruction, self._fusion, union_of(value), self._reads)
        if isinstance(value, Pieces):
            value = value.add(self._surroundings.find_started(instruction, self._fusion, self._reads))
        else:
            value = concluded
        if opcode == "custom-call" and (missed := self._surroundings.list_missed(instruction)):
            labels = union_of(value)
            found = [labels | missed.get(index, 0) for index in iterate_leaves(instruction.shape)]
            return tuple(found) if is_tuple(instruction.shape) else found[0]
        return tuple([value for _ in iterate_leaves(instruction.shape)]) if is_tuple(instruction.shape) else value


def _union(value: FusedValue) -> Labels:
    return unite(map(_union, value)) if isinstance(value, tuple) else union_of(value)


def _flatten(value: FusedValue) -> list[PiecewiseLabels]:
    if not isinstance(value, tuple):
        return [value]
    return [leaf for child in value for leaf in _flatten(child)]
