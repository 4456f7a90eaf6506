"""Finds the first operations on the way to a wrong output that get another version than they mean.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it. A *memory slice* is the bytes that the buffer assignment gives to one array; it
has a number. A set of hidden writes "as bits" is an integer with a bit for each write (see `LabelSpace.bits_of`).

A wrong operation (see `compared_edges`) without a wrong operation upstream (looking through operations that the
compiler folded) is where the wrong value is read: the scheduled instruction that computes it is the reader. In a loop
the wrong value makes operations wrong in the next iteration as well. So if some operation is wrong about a write of its
own iteration, operations that are wrong only about earlier iterations count as later ones, wherever they are in the
loop.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.verdict.compared_edges import Differing
from ligerdiag.analysis.verdict.comparison import Comparison
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.hlo.module import TagPath
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place


@dataclass(frozen=True, slots=True, eq=False)
class WrongRead:
    """A scheduled instruction that reads a value with the wrong version: stale or clobbered about one hidden write."""

    write: int
    """Index of the hidden write."""
    verdict: Verdict
    path: TagPath
    """Tag path of the program's operation that the reader computes."""
    occurrence: Occurrence
    place: Place
    operand: int | None
    """Number of the reader's operand through which it gets the wrong value; None if unknown."""
    rank: int
    """The position of this operation among the operations that the reader computes and that are wrong about this write, from
    0. One more for an operation that is wrong only about earlier iterations. Reads of rank 0 are blamed first.
    """


def find_wrong_reads(
    concerned: Labels,
    differing: tuple[Differing, ...],
    provenance: OperandProvenance,
    comparison: Comparison,
    *,
    verdict: Verdict,
) -> tuple[WrongRead, ...]:
    """Returns the reads at which operations begin to be wrong: no operation before them is wrong. They come write by write,
    each in program order; reads that are wrong only about earlier iterations come last.

    concerned: the hidden writes to look at, as bits. differing: all wrong operations. verdict: stale or clobbered, the
    error to look for.
    """
    every = {one: one.errors.about(verdict) & concerned for one in differing}
    now = {one: bits & ~_find_carried(one, verdict, comparison) for one, bits in every.items()}
    begun = unite(bits for one, bits in now.items() if one.is_same)
    begin = {one: bits & ~begun | now[one] for one, bits in every.items()}
    found = _find_begins(begin, verdict, provenance, comparison)
    if begin == every:
        return found
    known = {(read.write, read.occurrence.scheduled.id) for read in found}
    later = _find_begins(every, verdict, provenance, comparison)
    return found + tuple(
        [replace(one, rank=one.rank + 1) for one in later if (one.write, one.occurrence.scheduled.id) not in known]
    )


def _find_begins(
    differing: Mapping[Differing, Labels], verdict: Verdict, provenance: OperandProvenance, comparison: Comparison
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
    upstream = _Upstream(wrong, provenance)
    slices: defaultdict[int, set[int]] = defaultdict(set)
    for write in provenance.actual.writes:
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
                found[write].append(WrongRead(write, verdict, path, occurrence, place, operand, rank))
    return tuple([read for write in sorted(found) for read in found[write]])


def _find_carried(one: Differing, verdict: Verdict, comparison: Comparison) -> Labels:
    """Returns the hidden writes, as bits, about which the operation is wrong only for earlier iterations of a loop."""
    intended, actual = one.tagged.labels, one.occurrence.labels
    differs = intended & ~actual if verdict is Verdict.STALE else actual & ~intended
    return comparison.space.any_fresh(differs) & ~differs & ~comparison.space.bits_of(comparison.loop_depth_differs)


def put_in_order(path: TagPath) -> tuple[float, ...]:
    """Returns a key by which tag paths are sorted into program order. The operations of a called computation come before the
    call. path: the operation's tag, after the tags of the calls around it.
    """
    return (*path, inf)


class _Upstream:
    """Finds the hidden writes about which some operand of a given operation is already wrong, looking through operands
    that the schedule lacks.
    """

    def __init__(self, wrong: Mapping[TagPath, Labels], provenance: OperandProvenance) -> None:
        self._wrong = wrong
        self._provenance = provenance
        self._found: dict[TagPath, Labels] = {}

    def find(self, path: TagPath) -> Labels:
        """Returns the hidden writes about which an operand of an operation is wrong, as bits. path: tag path of the
        operation. If XLA folded an operand, so that the schedule lacks it, the operand's own operands count instead.
        """
        tagged = self._provenance.intended.tagged
        pending = [path]
        while pending:
            current = pending[-1]
            if current in self._found:
                pending.pop()
                continue
            here = put_in_order(current)
            operands = [one for one in tagged[current].operands if one in tagged and put_in_order(one) < here]
            unseen = [one for one in operands if one not in self._wrong and not any(self._provenance.list_seen(one))]
            missing = [one for one in unseen if one not in self._found]
            if missing:
                pending += missing
                continue
            bits = unite(self._wrong.get(operand, 0) for operand in operands)
            self._found[current] = bits | unite(self._found[operand] for operand in unseen)
        return self._found[path]


def find_source(write: int, occurrence: Occurrence, slices: set[int], space: LabelSpace) -> tuple[int | None, Place]:
    """Finds out from where a reader gets the contents from before a hidden write. Returns (number of the operand, place).

    The place is SAME_BYTES if the operand is in the overwritten bytes, otherwise COPY. If no operand has the old contents,
    the reader computes them again: returns (None, RECOMPUTED). write: index of the hidden write. slices: numbers of the
    memory slices that it overwrites.
    """
    original = space.all_original(write)
    carrying = [(number, place) for number, place, labels in occurrence.reads if labels & original]
    for number, place in carrying:
        if place in slices:
            return number, Place.SAME_BYTES
    if carrying:
        return carrying[0][0], Place.COPY
    return None, Place.RECOMPUTED
