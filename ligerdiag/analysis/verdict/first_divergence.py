"""Finds the first operations on the way to a wrong output whose dependence set (the hidden writes on which the value
depends) is already wrong.

For a hidden write W, an operation of the program that is seen again in the optimized module is *wrong* if its set in
the schedule, compared with its set in the program, is stale or clobbered as `comparison` defines. A wrong operation
without a wrong operation upstream (looking through operations that the compiler folded) is where the wrong value is
read: the scheduled instruction that computes it is the reader. In a loop the wrong value makes operations wrong in the
next iteration as well. So if some operation is wrong about a write of its own iteration, operations that are wrong only
about earlier iterations count as later ones, wherever they are in the loop.

An operand may be wrong although the whole operation looks right. Suppose `a * b` is meant to read the kernel's result
in `a` and the old contents in `b`, and `a` also depends on the old contents. If the multiplication reads the
overwritten bytes for `b`, its dependence set is still as intended. So the operands of an operation that is the author's
own are compared one by one with their intended sets (`operand_provenance` finds out which operand is which). XLA may
exchange the operands of a commutative operation or a product; such an operation is wrong only if it is wrong with its
operands in either order. If several operands are one value in the schedule, this value is compared with the intended
set of each, and they need no tag. Other operands that are not recognised are skipped, and so are operands that come
from another operation than intended; if XLA may rearrange the operation's operands, such an operand causes the whole
operation to be skipped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import inf

from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Actual, Occurrence
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.evaluation.program_order import CARRIED, Intended, TaggedSet
from ligerdiag.analysis.verdict.comparison import Comparison
from ligerdiag.analysis.verdict.operand_provenance import UNSEEN, OperandEdge, OperandProvenance, find_bytes
from ligerdiag.hlo.dataflow import Position
from ligerdiag.hlo.module import TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place
from ligerdiag.provenance.value_numbers import find_twins

_REARRANGED = having(Trait.COMMUTES, Trait.EXCHANGED, Trait.MULTIPLIES, Trait.ADDS)
"""Opcodes whose operands XLA may reorder. An operation with any other opcode keeps each operand in its place."""


@dataclass(frozen=True, slots=True, eq=False)
class WrongRead:
    """One scheduled instruction that reads a value which is wrong (stale or clobbered) for one hidden write."""

    write: int
    """Index of the hidden write."""
    path: TagPath
    """Tag path of the program's operation that the reader computes."""
    reader: int
    """Id of the scheduled instruction."""
    occurrence: Occurrence
    place: Place
    operand: int | None
    """Number of the reader's operand through which it gets the wrong value; None if unknown."""
    rank: int
    """0 if this is the first operation that the reader computes and that is wrong about this write, 1 for the second,
    and so on. One more for an operation that is wrong only about earlier iterations. Reads of rank 0 are blamed first.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Differing:
    """An instruction whose dependence set in the schedule differs from the set that the program has for the operation
    which the instruction computes.

    `stale` and `clobbered` have a bit for each hidden write about which the instruction is so (see
    `LabelSpace.bits_of`).
    """

    path: TagPath
    tagged: TaggedSet
    occurrence: Occurrence
    stale: Labels
    clobbered: Labels
    twin: TagPath = ()
    """Tag path of the operation whose name the instruction carries, if XLA merged that operation with the one at
    `path`; otherwise ().
    """
    is_joined: bool = False
    """Whether XLA computes the operation at `path` and the operation whose name the instruction carries as one product."""

    @property
    def is_same(self) -> bool:
        """Returns whether the instruction may compute the operation at `path`: it has the same opcode, or is a custom
        call that may implement the operation. False, for example, if a pass copied the operation's tag to an
        instruction that computes something else.
        """
        return is_same_operation(self.tagged.opcode, self.occurrence.instruction)

    def wrong(self, verdict: Verdict) -> Labels:
        """Returns the hidden writes, as bits, about which the instruction has this verdict: `stale` for STALE,
        `clobbered` for any other verdict.
        """
        return self.stale if verdict is Verdict.STALE else self.clobbered


def find_differing(intended: Intended, actual: Actual, comparison: Comparison) -> tuple[Differing, ...]:
    """Returns the instructions that are stale or clobbered about some hidden write: compared with the set that the
    program has for the instruction's operation, its own set lacks the write or should not have it.
    """
    found: list[Differing] = []
    known: dict[tuple[Labels, Labels], tuple[Labels, Labels]] = {}
    for path, tagged in intended.tagged.items():
        for occurrence in actual.occurrences.get(path, ()):
            if tagged.labels == occurrence.labels:
                continue
            key = (tagged.labels, occurrence.labels)
            wrong = known.get(key)
            if wrong is None:
                wrong = known[key] = (comparison.find_stale(*key), comparison.find_clobbered(*key))
            if wrong != (0, 0):
                found.append(Differing(path, tagged, occurrence, *wrong))
    return tuple(found)


def find_wrong_reads(
    concerned: Labels,
    intended: Intended,
    actual: Actual,
    differing: tuple[Differing, ...],
    comparison: Comparison,
    *,
    verdict: Verdict,
) -> tuple[WrongRead, ...]:
    """Returns the readers at which operations start to be wrong, in program order of the writes; readers of operations
    that are wrong only about earlier iterations come last.

    concerned: the hidden writes to look at, as bits. differing: all wrong operations. verdict: stale or clobbered, the
    error to look for.
    """
    now = {one: one.wrong(verdict) & concerned & ~_find_carried(one, verdict, comparison) for one in differing}
    begun = unite(bits for one, bits in now.items() if one.is_same)
    every = {one: one.wrong(verdict) & concerned for one in differing}
    begin = {one: bits & ~begun | now[one] for one, bits in every.items()}
    found = _find_begins(begin, intended, actual, comparison)
    if begin == every:
        return found
    known = {(read.write, read.reader) for read in found}
    later = _find_begins(every, intended, actual, comparison)
    return found + tuple(
        [replace(read, rank=read.rank + 1) for read in later if (read.write, read.reader) not in known]
    )


def _find_begins(
    differing: Mapping[Differing, Labels], intended: Intended, actual: Actual, comparison: Comparison
) -> tuple[WrongRead, ...]:
    """Returns the wrong reads of operations that are not computed from another wrong operation. differing: for each
    operation, the hidden writes to look at, as bits.
    """
    wrong: dict[TagPath, Labels] = {}
    occurrences: defaultdict[TagPath, list[tuple[Differing, Labels]]] = defaultdict(list)
    for one, bits in differing.items():
        if bits and one.is_same:
            wrong[one.path] = wrong.get(one.path, 0) | bits
            occurrences[one.path].append((one, bits))
    upstream = _Upstream(wrong, intended, actual)
    slices: defaultdict[int, set[int]] = defaultdict(set)
    for write in actual.writes:
        slices[write.write].update(write.slices)
    found: defaultdict[int, list[WrongRead]] = defaultdict(list)
    ranks: defaultdict[tuple[int, int], int] = defaultdict(int)
    for path in sorted(wrong, key=put_in_order):
        first = wrong[path] & ~upstream.find(path)
        for one, bits in occurrences[path] if first else ():
            for write in comparison.space.writes_of(bits & first):
                occurrence = one.occurrence
                operand, place = find_source(write, occurrence, slices[write], comparison.space)
                reader = occurrence.scheduled.id
                rank = ranks[write, reader]
                ranks[write, reader] += 1
                found[write].append(WrongRead(write, path, reader, occurrence, place, operand, rank))
    return tuple([read for write in sorted(found) for read in found[write]])


def _find_carried(one: Differing, verdict: Verdict, comparison: Comparison) -> Labels:
    """Returns the hidden writes, as bits, about which the operation is wrong only for earlier iterations of a loop."""
    intended, actual = one.tagged.labels, one.occurrence.labels
    differs = intended & ~actual if verdict is Verdict.STALE else actual & ~intended
    return comparison.space.any_fresh(differs) & ~differs & ~comparison.space.bits_of(comparison.loop_depth_differs)


def put_in_order(path: TagPath) -> tuple[float, ...]:
    """Returns the key by which tag paths sort into program order; the operations of a called computation come before
    the call itself.
    """
    return (*path, inf)


class _Upstream:
    """Finds the hidden writes about which some operand of a given operation is already wrong, looking through operands
    that the schedule lacks.
    """

    def __init__(self, wrong: Mapping[TagPath, Labels], intended: Intended, actual: Actual) -> None:
        self._wrong = wrong
        self._intended = intended
        self._actual = actual
        self._found: dict[TagPath, Labels] = {}

    def find(self, path: TagPath) -> Labels:
        """Returns the hidden writes, as bits, about which an operand of the operation at `path` is wrong. An operand
        that the schedule lacks, because XLA folded it, is replaced by its own operands.
        """
        tagged = self._intended.tagged
        pending = [path]
        while pending:
            current = pending[-1]
            if current in self._found:
                pending.pop()
                continue
            here = put_in_order(current)
            operands = [one for one in tagged[current].operands if one in tagged and put_in_order(one) < here]
            unseen = [one for one in operands if one not in self._wrong and not self._is_seen(one)]
            missing = [one for one in unseen if one not in self._found]
            if missing:
                pending += missing
                continue
            bits = unite(self._wrong.get(operand, 0) for operand in operands)
            self._found[current] = bits | unite(self._found[operand] for operand in unseen)
        return self._found[path]

    def _is_seen(self, path: TagPath) -> bool:
        opcode = self._intended.tagged[path].opcode
        return any(is_same_operation(opcode, s.instruction) for s in self._actual.occurrences.get(path, ()))


def find_authored_occurrences(
    differing: tuple[Differing, ...], is_authored: Callable[[TagPath, Occurrence], bool]
) -> tuple[Differing, ...]:
    """Returns the instructions that are the author's own operations, according to `is_authored`, and the instructions
    that compute two of the author's products as one.

    Other instructions only carry the metadata of an operation: passes copy it to instructions that compute something
    else, such as parts of a reassociated sum.
    """
    return tuple(
        [
            one
            for one in differing
            if one.is_joined
            or (
                one.occurrence.instruction.opcode == one.tagged.opcode
                and is_authored(one.twin or one.path, one.occurrence)
            )
        ]
    )


def find_source(write: int, occurrence: Occurrence, slices: set[int], space: LabelSpace) -> tuple[int | None, Place]:
    """Returns the number of the operand through which the reader gets the contents from before the write, and the place
    of that value: SAME_BYTES if it is in one of `slices`, otherwise COPY.

    If no operand holds these contents, the result is (None, RECOMPUTED): the reader computes them again. slices:
    numbers of the memory slices that the write overwrites.
    """
    original = space.all_original(write)
    carrying = [(number, place) for number, place, labels in occurrence.reads if labels & original]
    for number, place in carrying:
        if place in slices:
            return number, Place.SAME_BYTES
    if carrying:
        return carrying[0][0], Place.COPY
    return None, Place.RECOMPUTED


def find_wrong_edges(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields operations with a wrong operand, each with the hidden writes about which the operand is wrong and the
    operation as a whole is not.

    If an instruction is wrong for the operation whose name it carries, it is also compared with each twin of that
    operation (an operation that is the same value to XLA), because it may be wrong for the twin as well.
    """
    intended, twins = provenance.intended, find_twins(provenance.evaluator.program)
    for path, tagged in intended.tagged.items():
        if not any(one for one, _ in tagged.edges) and len({labels for _, labels in tagged.edges}) < 2:
            continue
        for occurrence in provenance.actual.occurrences.get(path, ()):
            instruction = occurrence.instruction
            if instruction.opcode != tagged.opcode or len(instruction.operands) != len(tagged.edges):
                continue
            if not provenance.is_authored(path, occurrence):
                continue
            operands = provenance.recognise(path, occurrence)
            here, parts = _judge_operands(path, tagged, (occurrence, operands), provenance, comparison)
            if parts != (0, 0):
                yield Differing(path, tagged, occurrence, *parts)
            if here == (0, 0) and parts == (0, 0):
                continue
            for other in twins.list_others(path):
                meant = intended.tagged.get(other)
                if meant is None or len(meant.edges) != len(operands):
                    continue
                _, parts = _judge_operands(other, meant, (occurrence, operands), provenance, comparison)
                if parts != (0, 0):
                    yield Differing(other, meant, occurrence, *parts, twin=path)


def find_moved_errors(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the operations that XLA computes before it takes the parts of their operands, such as `x[:8] * y[:8]` as a
    slice of `x * y`, each with the hidden writes about which it, or one of its operands, is wrong.

    The instruction of the schedule is the slice, which has the name of the slice of an operand (see `moved_operations`).
    """
    for path in provenance.intended.tagged:
        for occurrence in provenance.actual.occurrences.get(path, ()):
            computed = provenance.moved.list_computed(path, occurrence.instruction)
            wrong = [_judge_moved(path, other, occurrence, provenance, comparison) for other in computed]
            stale, clobbered = reduce(_keep_common, wrong) if wrong else (0, 0)
            if stale or clobbered:
                meant = provenance.intended.tagged[computed[0]]
                yield Differing(computed[0], meant, occurrence, stale, clobbered, is_joined=True)


def _keep_common(one: tuple[Labels, Labels], other: tuple[Labels, Labels]) -> tuple[Labels, Labels]:
    return one[0] & other[0], one[1] & other[1]


def _judge_moved(
    path: TagPath, other: TagPath, occurrence: Occurrence, provenance: OperandProvenance, comparison: Comparison
) -> tuple[Labels, Labels]:
    """Returns (stale writes, clobbered writes), as bits, of an instruction that XLA has moved if it computes the operation
    `other`.

    path: tag path of the moved operation, which the instruction has.
    """
    meant = provenance.intended.tagged[other]
    reader, _ = provenance.moved.list_reads(path, occurrence.instruction)[0]
    stale = comparison.find_stale(meant.labels, occurrence.labels)
    clobbered = comparison.find_clobbered(meant.labels, occurrence.labels)
    tag = provenance.evaluator.optimized.tags.get(reader.id, ())
    seen = [one for one in provenance.actual.occurrences.get(tag, ()) if one.instruction is reader]
    if seen and len(meant.edges) == len(reader.operands):
        parts = _judge(meant, provenance.recognise(other, seen[0]), provenance, comparison)
        stale, clobbered = stale | parts[0], clobbered | parts[1]
    return stale, clobbered


def _judge_operands(
    path: TagPath,
    tagged: TaggedSet,
    seen: tuple[Occurrence, list[OperandEdge]],
    provenance: OperandProvenance,
    comparison: Comparison,
) -> tuple[tuple[Labels, Labels], tuple[Labels, Labels]]:
    """Returns two pairs (stale writes, clobbered writes), as bits: first the writes about which the instruction as a
    whole is wrong if it computes this operation, then the additional writes about which only one of its operands is
    wrong.

    seen: the instruction, and its recognised operands.
    """
    occurrence, operands = seen
    stale, clobbered = _judge(tagged, operands, provenance, comparison)
    for labels, meanings in _list_joined(tagged, occurrence, operands, provenance.evaluator):
        stale |= unite(comparison.find_stale(meant, labels) for meant in meanings)
        clobbered |= unite(comparison.find_clobbered(meant, labels) for meant in meanings)
    own = comparison.space.bits_of(one.index for one in comparison.writes if one.tag_path == path)
    whole = (
        comparison.find_stale(tagged.labels, occurrence.labels),
        comparison.find_clobbered(tagged.labels, occurrence.labels),
    )
    return whole, (stale & ~whole[0] & ~own, clobbered & ~whole[1] & ~own)


def _judge(
    tagged: TaggedSet, operands: list[OperandEdge], provenance: OperandProvenance, comparison: Comparison
) -> tuple[Labels, Labels]:
    """Returns (the writes about which some operand is stale, the writes about which some operand is clobbered), as
    bits. XLA may have changed the order of the operands: a write counts only if some operand is wrong about it in every
    order that is possible. Both are 0 if no order is.
    """
    stale = clobbered = -1
    for edges in provenance.list_orders(tagged, operands):
        every = zip(edges, operands, strict=True)
        pairs = [pair for pair in every if pair[1] != UNSEEN and (pair[0][0] or not pair[1][0])]
        unlike = [pair for pair in pairs if pair[1][0] and not provenance.may_replace(pair[1][0], pair[0][0], tagged)]
        if edges is tagged.edges:  # computed outside of a loop in one program: a loop's state there
            pairs = [pair for pair in pairs if pair not in unlike]
            unlike = [
                pair for pair in unlike if tagged.opcode in _REARRANGED and CARRIED not in {pair[0][0], pair[1][0]}
            ]
        if unlike:
            continue
        missing = seen = 0
        for (_, meant), (_, labels) in pairs:
            missing |= comparison.find_stale(meant, labels)
            seen |= comparison.find_clobbered(meant, labels)
        stale &= missing
        clobbered &= seen
    return max(stale, 0), max(clobbered, 0)


def _list_joined(
    tagged: TaggedSet, occurrence: Occurrence, operands: list[OperandEdge], evaluator: Evaluator
) -> Iterator[tuple[Labels, set[Labels]]]:
    """Yields each value that the instruction reads as several operands for which the program has different sets, as
    (the value's dependence set in the schedule, the program's sets for these operands).
    """
    if len({labels for _, labels in tagged.edges}) < 2:
        return
    instruction = occurrence.instruction
    places: defaultdict[Position, list[int]] = defaultdict(list)
    for number, operand in enumerate(instruction.operands):
        places[find_bytes(operand, occurrence, evaluator)].append(number)
    for numbers in places.values():
        meanings = {tagged.edges[number][1] for number in numbers}
        if len(meanings) < 2:
            continue
        if len(places) == 1:  # the operation depends on this value alone
            yield occurrence.labels & ~evaluator.carried.get(instruction.id, 0), meanings
        elif operands[numbers[0]] != UNSEEN:
            yield operands[numbers[0]][1], meanings
