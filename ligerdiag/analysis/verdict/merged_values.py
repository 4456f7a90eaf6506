"""Finds values of the program that XLA merged although a kernel overwrites one of them, and the effect on the
operations that use them.

There are four such effects:

- XLA replaces an operation that chooses between two merged values by the merged value.
- XLA computes two products of one value as one product: it concatenates the other operands, reads the value once, and
  slices the result (DotMerger, xla/hlo/transforms/simplifiers/dot_merger.cc). One of the two products is gone.
- Merged values meet in a loop or a conditional, which may return one of them for the other.
- A loop starts several elements of its state from one value, and XLA keeps these elements in one place in memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Actual, Occurrence
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.analysis.verdict.comparison import Comparison
from ligerdiag.analysis.verdict.first_divergence import Differing
from ligerdiag.analysis.verdict.operand_provenance import RENAMED, UNSEEN, OperandProvenance, find_bytes
from ligerdiag.hlo.dataflow import Dataflow
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.provenance.value_numbers import find_twins

_CHOOSES = having(Trait.CHOOSES)
"""Opcodes that choose between operands. XLA replaces such an operation by its operand if it takes the operands between
which the operation chooses for one value.
"""


def find_removed_choices(
    intended: Intended, actual: Actual, comparison: Comparison, evaluator: Evaluator
) -> Iterator[tuple[TagPath, Labels]]:
    """Yields the tag path of each choice that XLA removed because it took two operands of it for one value, with the
    hidden writes, as bits, that one of these operands should see and the other should not.
    """
    twins, space = find_twins(evaluator.program), comparison.space
    for path in twins.list_with_twins(intended.tagged):
        tagged = intended.tagged[path]
        if tagged.opcode not in _CHOOSES or any(
            seen.instruction.opcode == tagged.opcode for seen in actual.occurrences.get(path, ())
        ):
            continue
        numbers = twins.list_operands(path)
        found = 0
        for number in {number for number in numbers if numbers.count(number) > 1}:
            fresh = [space.any_fresh(one) for (_, one), n in zip(tagged.edges, numbers, strict=False) if n == number]
            found |= unite(one & ~other for one in fresh for other in fresh)
        if found:
            yield path, found


def find_joined(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields each product that is gone from the schedule because XLA merged it with another product of the same value,
    if it should read this value before a hidden write and the remaining product reads it after the write, or the
    reverse.
    """
    intended, twins = provenance.intended, find_twins(provenance.evaluator.program)
    left: dict[TagPath, list[Occurrence]] = {}
    for path in twins.products:
        if path in intended.tagged:
            seen = provenance.actual.occurrences.get(path, ())
            left[path] = [one for one in seen if is_same_operation(intended.tagged[path].opcode, one.instruction)]
    gone = [path for path, occurrences in left.items() if not occurrences and intended.tagged[path].edges]
    concatenations = _find_concatenations(provenance.evaluator) if gone else {}
    joined = [
        (path, one, number)
        for path, some in left.items()
        if gone
        for one in some
        for number in _list_shared(one, provenance.evaluator, concatenations)
    ]
    for path in gone:
        tagged, found = intended.tagged[path], list[Differing]()
        for other, occurrence, number in joined:
            pairs = enumerate(zip(twins.products[other], twins.products[path], strict=True))
            same = [place for place, (one, another) in pairs if one == another]
            _, labels = provenance.recognise(other, occurrence)[number]
            if len(same) == 1 and labels != UNSEEN[1]:  # XLA may have exchanged the operands
                meant = tagged.edges[same[0]][1]
                wrong = comparison.find_stale(meant, labels), comparison.find_clobbered(meant, labels)
                found.append(Differing(path, tagged, occurrence, *wrong, twin=other, is_joined=True))
        if found and all(one.stale | one.clobbered for one in found):
            yield found[0]


def _find_concatenations(evaluator: Evaluator) -> dict[int, HloInstruction]:
    """Maps the tag of each concatenation that the author wrote to that concatenation."""
    tagged = (
        (evaluator.program.tags.get(one.id, ()), one)
        for one in evaluator.program.instructions
        if one.opcode == "concatenate"
    )
    return {path[-1]: one for path, one in tagged if path}


def _list_shared(product: Occurrence, evaluator: Evaluator, own: Mapping[int, HloInstruction]) -> list[int]:
    """Returns a list of at most one number: that of the operand which several products had in common before XLA joined
    them into this product. XLA has concatenated their other operands. The list is empty if the instruction is not such
    a joined product. own: maps the tag of each concatenation in the program to the concatenation.
    """
    operands = product.instruction.operands
    if len(operands) != 2:
        return []
    made = [_is_made_by_xla(find_bytes(operand, product, evaluator)[0], evaluator, own) for operand in operands]
    return [1 - number for number, is_made in enumerate(made) if is_made and not made[1 - number]]


def _is_made_by_xla(value: HloInstruction, evaluator: Evaluator, own: Mapping[int, HloInstruction]) -> bool:
    """Returns whether the value is a concatenation that XLA made.

    If XLA concatenates the result of an author's concatenation with other values, the new concatenation may carry the
    name of the author's. It is recognised because it has another number of operands, or because the author's
    concatenation is one of its operands.
    """
    path = evaluator.optimized.tags.get(value.id, ())
    meant = own.get(path[-1]) if path else None
    if value.opcode != "concatenate" or meant is None or len(value.operands) != len(meant.operands):
        return value.opcode == "concatenate"
    return any(evaluator.optimized.tags.get(_find_part(one, evaluator).id) == path for one in value.operands)


def _find_part(operand: HloInstruction, evaluator: Evaluator) -> HloInstruction:
    """Returns the instruction that defines the operand; if the operand is a parameter of a fusion, the instruction
    outside of the fusion that defines the fusion's operand.
    """
    flow = Dataflow(evaluator.optimized, RENAMED)
    value, _ = flow.find_definition(operand)
    callers = evaluator.optimized.callers.get(evaluator.optimized.homes[value.id].id, ())
    if value.opcode == "parameter" and [one.opcode for one in callers] == ["fusion"]:
        value, _ = flow.find_definition(callers[0].operands[value.proto.parameter_number])
    return value


@dataclass(frozen=True, slots=True)
class TwinConfluence:
    """One leaf of the result of a loop or conditional that may be any of several values which XLA merged."""

    path: TagPath
    leaf: int
    writes: Labels
    """The hidden writes, as bits, that some of the merged values should see and others should not."""
    instruction: str
    """Name of the scheduled loop or conditional if it returns one merged value for another in some case; empty if it is
    unknown whether it does.
    """


def find_twin_confluences(
    intended: Intended, actual: Actual, comparison: Comparison, evaluator: Evaluator
) -> Iterator[TwinConfluence]:
    """Yields each leaf of a loop's or conditional's result that may be one of several merged values, of which some
    should see a hidden write and others should not.

    The schedule is right if it keeps these values apart nevertheless. It is unknown whether it does if the loop or
    conditional is gone from the schedule, or if its result has another number of leaves there than in the program.
    """
    twins, space = find_twins(evaluator.program), comparison.space
    for path, meeting in intended.confluences.items():
        numbers, seen = twins.list_alternatives(path), actual.confluences.get(path)
        if len(numbers) != len(meeting.alternatives):
            continue
        is_seen = seen is not None and len(seen.alternatives) == len(meeting.alternatives)
        for leaf, (alternatives, of_leaf) in enumerate(zip(meeting.alternatives, numbers, strict=True)):
            fresh = [space.any_fresh(labels) for labels in alternatives]
            mixed = _unite_differing(fresh, of_leaf)
            if seen is not None and is_seen and len(seen.alternatives[leaf]) == len(fresh):
                kept = map(space.any_fresh, seen.alternatives[leaf])
                mixed &= unite(meant ^ labels for meant, labels in zip(fresh, kept, strict=True))
            if mixed:
                yield TwinConfluence(path, leaf, mixed, seen.instruction if seen is not None and is_seen else "")


def find_shared_state(
    intended: Intended, actual: Actual, comparison: Comparison, evaluator: Evaluator
) -> Iterator[TwinConfluence]:
    """Yields the elements of a loop's state that start from one value, change places in the loop, and are in one place
    in the memory of the schedule.

    XLA sees no difference between these elements, although a kernel overwrites one of them in the loop, or has done so
    before it.
    """
    twins, space = find_twins(evaluator.program), comparison.space
    for path, seen in actual.confluences.items():
        meeting, numbers = intended.confluences.get(path), twins.list_alternatives(path)
        hitting = [write for write in actual.writes if not seen.shared.isdisjoint(write.slices)]
        if meeting is None or len(numbers) != len(meeting.ends) or not hitting:
            continue
        touched = space.bits_of(write.write for write in hitting)
        inside = space.bits_of(
            write.write
            for write in hitting
            if any(frame.instruction.name == seen.instruction for frame in write.frames)
        )
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for leaf, alternatives in enumerate(numbers):
            groups[alternatives[0]].append(leaf)
        for number, leaves in groups.items():
            if len(leaves) < 2 or meeting.kept.issuperset(leaves):
                continue
            starts = [space.any_fresh(meeting.alternatives[leaf][0]) for leaf in leaves]
            mixed = _unite_differing(starts, [number] * len(leaves)) & touched
            mixed |= unite(space.any_fresh(meeting.ends[leaf]) for leaf in leaves) & inside
            for leaf in leaves if mixed else ():
                yield TwinConfluence(path, leaf, mixed, seen.instruction)


def _unite_differing(fresh: Sequence[Labels], numbers: Sequence[int]) -> Labels:
    """Returns the hidden writes, as bits, on which one value depends and another value with the same value number,
    which is equal to it for XLA, does not. fresh: for each value, the hidden writes on which it depends, as bits.
    numbers: the value number of each, in the same order.
    """
    values = list(zip(numbers, fresh, strict=True))
    return unite(one & ~other for number, one in values for same, other in values if number == same)
