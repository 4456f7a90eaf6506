"""Finds the consumers that may get one value in place of another, because XLA merged the two although a kernel overwrites
one of them. Also finds the outputs that such a consumer makes wrong.

There are four such consumers:

- A kernel call whose operands are, for XLA, those of an earlier call that sees another version: XLA merges the two
  calls. Every value computed from the later call's result is stale.
- A choice between merged values, such as `max(a, b)` or `where(c, a, b)`, which XLA replaces by one of them.
- A loop or a conditional with merged values: it may return one of them in place of the other.
- A loop that starts several elements of its state from one value, if XLA keeps these elements in one place in memory.

An output that depends on one of the last three is clobbered if it sees the write, and stale otherwise.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.program_order import name_leaf
from ligerdiag.analysis.verdict.comparison import Cause, ComparedEdge, Comparison, OutputVerdict
from ligerdiag.hlo.module import TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import Verdict
from ligerdiag.provenance.value_numbers import Twins, find_twins

_CHOOSES = having(Trait.CHOOSES)
"""Opcodes that choose between operands. XLA replaces such an operation by its operand if it takes the operands between
which the operation chooses for one value.
"""


@dataclass(frozen=True, slots=True)
class MergedEdge:
    """An edge whose consumer may get the wrong one of several values. XLA merged them, although their versions differ."""

    consumer: TagPath
    """Tag path of a kernel call or a choice, or the name of a leaf (`name_leaf`) of a loop's or conditional's result."""
    writes: Labels
    """The hidden writes, as bits, that some of the merged values should see and others should not."""
    instruction: str = ""
    """Name of the scheduled loop or conditional that may return one merged value in place of another; empty for any other
    consumer.
    """
    verdict: Verdict | None = None
    """The verdict on outputs that depend on the consumer: STALE for a call; UNKNOWN if it is unknown whether a loop or
    conditional returns one merged value for another; None if the output's own dependence set says it, clobbered if it
    sees the write and otherwise stale.
    """


def blame_merged_values(
    outputs: Mapping[str, OutputVerdict], pair: EvaluatedPair, comparison: Comparison, evaluator: Evaluator
) -> tuple[dict[str, OutputVerdict], Mapping[str, tuple[MergedEdge, ...]]]:
    """Makes the verdict on an output worse if the output depends on a consumer of merged values.

    Returns the verdict on each output. Also returns, for each output, the loops and conditionals among these consumers.
    """
    space = comparison.space
    merged = list(_find_merged(pair, comparison, evaluator))
    if not merged:
        return dict(outputs), {}
    judged: dict[str, OutputVerdict] = {}
    mixed: dict[str, tuple[MergedEdge, ...]] = {}
    reached = evaluator.find_dependents(one.consumer for one in merged)
    for (name, output), paths, actual in zip(outputs.items(), reached, pair.actual.outputs, strict=True):
        found = [one for one in merged if one.consumer in paths]
        mixed[name] = tuple([one for one in found if one.instruction or one.verdict is Verdict.UNKNOWN])
        calls = unite(one.writes for one in found if one.verdict is Verdict.STALE)
        others = unite(one.writes for one in found if one.verdict is None)
        seen = space.any_fresh(actual)
        causes = [Cause(write, Verdict.STALE) for write in space.writes_of(calls)]
        causes += [
            Cause(write, Verdict.CLOBBERED if seen & space.bits_of((write,)) else Verdict.STALE)
            for write in space.writes_of(others)
        ]
        judged[name] = output.join(tuple(causes))
    return judged, mixed


def _find_merged(pair: EvaluatedPair, comparison: Comparison, evaluator: Evaluator) -> Iterator[MergedEdge]:
    yield from _find_calls(pair, evaluator)
    if evaluator.is_tagged:
        twins = find_twins(evaluator.program)
        yield from _find_removed_choices(pair, twins, comparison)
        yield from _find_confluences(pair, twins, comparison)
        yield from _find_shared_state(pair, twins, comparison)


def _find_calls(pair: EvaluatedPair, evaluator: Evaluator) -> Iterator[MergedEdge]:
    """Yields each kernel call that XLA merged with an earlier one which sees another version."""
    tagged, matching = pair.intended.tagged, evaluator.matching
    for late, early in matching.merged_into.items():
        path = pair.writes[late].tag_path
        is_like = late in matching.identical or path not in tagged
        if not is_like and tagged[path].labels != tagged[pair.writes[early].tag_path].labels:
            yield MergedEdge(path, pair.space.bits_of((early,)), verdict=Verdict.STALE)


def _find_removed_choices(pair: EvaluatedPair, twins: Twins, comparison: Comparison) -> Iterator[MergedEdge]:
    """Yields each choice that is gone because XLA took two operands of it for one value, which one of them should see
    after a hidden write and the other before it.
    """
    for path in twins.list_with_twins(pair.intended.tagged):
        tagged = pair.intended.tagged[path]
        if tagged.opcode not in _CHOOSES or any(
            seen.instruction.opcode == tagged.opcode for seen in pair.actual.occurrences.get(path, ())
        ):
            continue
        writes = _find_unlike([labels for _, labels in tagged.edges], twins.list_operands(path), comparison)
        if writes:
            yield MergedEdge(path, writes)


def _find_confluences(pair: EvaluatedPair, twins: Twins, comparison: Comparison) -> Iterator[MergedEdge]:
    """Yields each leaf of a loop's or conditional's result that may be one of several merged values, of which some
    should see a hidden write and others should not.

    The schedule is right if it keeps these values apart nevertheless. It is unknown whether it does if the loop or
    conditional is gone from the schedule, or if its result has another number of leaves there than in the program.
    """
    for path, meeting in pair.intended.confluences.items():
        numbers, seen = twins.list_alternatives(path), pair.actual.confluences.get(path)
        if len(numbers) != len(meeting.alternatives):
            continue
        is_seen = seen is not None and len(seen.alternatives) == len(meeting.alternatives)
        for leaf, (alternatives, of_leaf) in enumerate(zip(meeting.alternatives, numbers, strict=True)):
            writes = _find_unlike(alternatives, of_leaf, comparison)
            if seen is not None and is_seen and len(seen.alternatives[leaf]) == len(alternatives):
                ways = zip(alternatives, seen.alternatives[leaf], strict=True)
                writes &= unite(_compare_writes(*sets, comparison) for sets in ways)
            if writes and seen is not None and is_seen:
                yield MergedEdge(name_leaf(path, leaf), writes, seen.instruction)
            elif writes:
                yield MergedEdge(name_leaf(path, leaf), writes, verdict=Verdict.UNKNOWN)


def _find_shared_state(pair: EvaluatedPair, twins: Twins, comparison: Comparison) -> Iterator[MergedEdge]:
    """Yields the elements of a loop's state that start from one value, change places in the loop, and are in one place
    in the memory of the schedule.

    XLA sees no difference between these elements, although a kernel overwrites one of them in the loop, or has done so
    before it.
    """
    space = comparison.space
    for path, seen in pair.actual.confluences.items():
        meeting, numbers = pair.intended.confluences.get(path), twins.list_alternatives(path)
        hitting = [write for write in pair.actual.writes if not seen.shared.isdisjoint(write.slices)]
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
        for leaves in groups.values():
            if len(leaves) < 2 or meeting.kept.issuperset(leaves):
                continue
            starts = [meeting.alternatives[leaf][0] for leaf in leaves]
            writes = _find_unlike(starts, [0] * len(leaves), comparison) & touched
            writes |= unite(space.any_fresh(meeting.ends[leaf]) for leaf in leaves) & inside
            for leaf in leaves if writes else ():
                yield MergedEdge(name_leaf(path, leaf), writes, seen.instruction)


def _find_unlike(values: Sequence[Labels], numbers: Sequence[int], comparison: Comparison) -> Labels:
    """Returns the hidden writes, as bits, about which an edge is wrong if it means one of these values and gets another
    one that XLA merged with it. values: the dependence set of each value. numbers: the value number of each; merged
    values have the same number.
    """
    numbered = list(zip(numbers, values, strict=False))
    return unite(
        _compare_writes(one, other, comparison)
        for number, one in numbered
        for same, other in numbered
        if number == same
    )


def _compare_writes(meant: Labels, delivered: Labels, comparison: Comparison) -> Labels:
    """Returns the hidden writes, as bits, that one value sees and the other does not, in any iteration."""
    any_fresh = comparison.space.any_fresh
    return comparison.find_errors(ComparedEdge(any_fresh(meant), any_fresh(delivered))).both
