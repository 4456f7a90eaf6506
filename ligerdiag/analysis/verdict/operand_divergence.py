"""Operand divergence: operands that are wrong where the operation as a whole does not show it.

`a * b` is meant to read what a kernel left in `a`, and the original of `b`, and `a` depends on the original, too. Where it
reads the overwritten bytes for `b`, it has the dependence set that it should have. So the operands of an operation that is
surely the author's own are held against what each of them is meant to depend on:

  (1) An operand is recognised by its tag: the instruction itself, or what a fusion's parameter stands for, through bitcasts
      and get-tuple-elements, carries the tag of the operation that the operand is meant to come from.
  (2) Twins (`reaching_definitions`) are one operation to XLA, and so are an operation and what only reshapes its result:
      an operand with the tag of either is recognised, too.
  (3) An element of a loop's state has no tag: where both programs hand one in, at the operation's same place, they are
      taken for the same element.
  (4) The operands of a commutative operation may be exchanged; it is wrong only if it is so either way.
Operands that are not recognised are skipped; so is an operation with an operand of another operation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.memory import Actual, Sighting
from ligerdiag.analysis.evaluation.program_order import CARRIED, Intended, TaggedSet
from ligerdiag.analysis.evaluations import Evaluations
from ligerdiag.analysis.reaching_definitions import find_one_value, find_same_elements, number_values
from ligerdiag.analysis.verdict.comparison import Comparison
from ligerdiag.analysis.verdict.first_divergence import Differing
from ligerdiag.hlo.dataflow import Dataflow, Position, Through
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_RENAMED = Through(bitcasts=True, tuples=True, fusions=True)
_COMMUTATIVE = having(Trait.COMMUTES)

type OperandEdge = tuple[TagPath, Labels]


def find_wrong_edges(
    intended: Intended, actual: Actual, comparison: Comparison, run: Evaluations
) -> Iterator[Differing]:
    """Finds operations with a wrong operand, about writes that the operation as a whole is not wrong about."""
    twins = _Twins(_number_tags(run.program))
    for path, tagged in intended.tagged.items():
        if not any(one for one, _ in tagged.edges):
            continue
        for sighting in actual.sightings.get(path, ()):
            instruction = sighting.instruction
            if instruction.opcode != tagged.opcode or len(instruction.operands) != len(tagged.edges):
                continue
            if not run.is_own(path, instruction):
                continue
            operands = [_recognise(operand, sighting, actual, run) for operand in instruction.operands]
            stale, clobbered = _judge(tagged, operands, twins, comparison)
            stale &= ~comparison.find_stale(tagged.labels, sighting.labels)
            clobbered &= ~comparison.find_clobbered(tagged.labels, sighting.labels)
            if stale or clobbered:
                yield Differing(path, tagged, sighting, stale, clobbered)


@dataclass(frozen=True, slots=True)
class _Twins:
    """Value numbers of the program's operations: two with one number are one to XLA."""

    numbers: Mapping[TagPath, tuple[int, int]]
    """Tags of an instruction to its computation and the number of its value."""

    def are_one(self, one: TagPath, other: TagPath) -> bool:
        """Whether two operations, by their tag paths, are one to XLA."""
        if one == other:
            return True
        number = self.numbers.get(one[-1:])
        return number is not None and one[:-1] == other[:-1] and number == self.numbers.get(other[-1:])


def _number_tags(program: HloModule) -> dict[TagPath, tuple[int, int]]:
    found: dict[TagPath, tuple[int, int]] = {}
    for computation in program.computations.values():
        numbers = number_values(computation)
        for instruction in computation.instructions:
            tags = program.tags.get(instruction.id)
            if tags:
                found[tags] = (computation.id, numbers[_find_base(instruction).id])
    return found


def _find_base(instruction: HloInstruction) -> HloInstruction:
    """Returns the source of its elements, through reshapes and our own barriers."""
    while True:
        base = find_one_value(instruction) or find_same_elements(instruction)
        if base is None:
            return instruction
        instruction = base


def _judge(
    tagged: TaggedSet, operands: list[OperandEdge], twins: _Twins, comparison: Comparison
) -> tuple[Labels, Labels]:
    """Returns the writes, a bit each, about which some operand is stale, and clobbered."""
    orders = [tagged.edges]
    if tagged.opcode in _COMMUTATIVE:
        orders.append(tagged.edges[::-1])
    stale = clobbered = -1
    for edges in orders:
        pairs = [(meant, one) for meant, one in zip(edges, operands, strict=True) if one[0] and meant[0]]
        unlike = [pair for pair in pairs if not twins.are_one(pair[0][0], pair[1][0])]
        if edges is tagged.edges:  # what one of the programs takes out of a loop, the loop hands in
            pairs = [pair for pair in pairs if pair not in unlike]
            unlike = [pair for pair in unlike if CARRIED not in {pair[0][0], pair[1][0]}]
        if unlike:
            continue
        missing = seen = 0
        for (path, meant), (_, labels) in pairs:
            missing |= comparison.find_stale(meant, labels)
            seen |= comparison.find_clobbered(meant, labels)
            if path == CARRIED:
                seen |= comparison.find_overtaken(meant, labels)
        stale &= missing
        clobbered &= seen
    return max(stale, 0), max(clobbered, 0)


def _recognise(operand: HloInstruction, sighting: Sighting, actual: Actual, run: Evaluations) -> OperandEdge:
    """Returns by (1) the tag path and dependence set; () as a path if the operand is not recognised."""
    tags, scheduled = run.optimized.tags, sighting.scheduled
    one = operand
    while True:
        path = tags.get(one.id, ())
        if path:
            seen = next((s for s in actual.sightings.get(path, ()) if s.instruction is one), None)
            if seen is not None and seen.scheduled is scheduled:
                return path, seen.labels
        if one.opcode in _NAMES:
            one = one.operands[0]
        elif one.opcode == "parameter" and sighting.instruction is not scheduled:
            number = one.proto.parameter_number
            return _find_tag(scheduled.operands[number], run), _read(sighting, number)
        elif sighting.instruction is scheduled:
            return _find_tag(operand, run), _read(sighting, scheduled.operands.index(operand))
        else:
            return (), 0


def _find_tag(value: HloInstruction, run: Evaluations) -> TagPath:
    """Returns the tag of the operation whose bytes the value names; of a fusion's result, that of its last operation;
    CARRIED of a loop's state."""
    flow, tags = Dataflow(run.optimized, _RENAMED), run.optimized.tags
    position: Position | None = (value, ())
    while position is not None:
        value = position[0]
        is_tagged = value.opcode == "bitcast" and value.id in tags
        position = None if is_tagged else next(flow.list_sources(*position), None)
    if value.opcode == "parameter" and _is_state(value, run.optimized):
        return CARRIED
    return tags.get(value.id, ())


def _is_state(parameter: HloInstruction, module: HloModule) -> bool:
    callers = module.callers.get(module.homes[parameter.id].id, ())
    return any(caller.opcode == "while" for caller in callers)


def _read(sighting: Sighting, number: int) -> Labels:
    """Returns the set in the bytes of that operand when the scheduled instruction read them."""
    return unite(labels for operand, _, labels in sighting.reads if operand == number)
