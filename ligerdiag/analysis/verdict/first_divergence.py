"""First divergence: the first operations on the way to a wrong output whose dependence set is already wrong.

For a hidden write W, an operation t of the program that is seen again in the optimized module is *wrong* when its two sets
differ there as in `comparison`. A wrong operation with no wrong operation upstream (looking through operations that the
compiler folded away) is where the wrong value is read: its scheduled instruction is the reader.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.evaluation.memory import Actual, Sighting
from ligerdiag.analysis.evaluation.program_order import Intended, TaggedSet
from ligerdiag.analysis.verdict.comparison import Comparison
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place


@dataclass(frozen=True, slots=True, eq=False)
class WrongRead:
    """One reader of one wrong value."""

    write: int
    """HiddenWrite index."""
    path: TagPath
    """The program's operation."""
    reader: int
    """Id of the scheduled instruction."""
    sighting: Sighting
    place: Place
    operand: int | None
    """operand_number of the reader that brings the wrong value, when known."""
    rank: int
    """How many wrong operations of the same reader come before this one."""


@dataclass(frozen=True, slots=True, eq=False)
class Differing:
    """A sighting whose set is not its operation's; a bit for each write (see `LabelSpace.bits_of`)."""

    path: TagPath
    tagged: TaggedSet
    sighting: Sighting
    stale: Labels
    clobbered: Labels

    @property
    def is_same(self) -> bool:
        """Whether the instruction may be what became of the operation."""
        return is_same_operation(self.tagged.opcode, self.sighting.instruction)

    def wrong(self, verdict: Verdict) -> Labels:
        """Returns the writes about which it is stale or clobbered."""
        return self.stale if verdict is Verdict.STALE else self.clobbered


def find_differing(intended: Intended, actual: Actual, comparison: Comparison) -> tuple[Differing, ...]:
    """Finds the sightings whose set differs from their operation's so that it is wrong about some write."""
    found: list[Differing] = []
    known: dict[tuple[Labels, Labels], tuple[Labels, Labels]] = {}
    for path, tagged in intended.tagged.items():
        for sighting in actual.sightings.get(path, ()):
            if tagged.labels == sighting.labels:
                continue
            key = (tagged.labels, sighting.labels)
            wrong = known.get(key)
            if wrong is None:
                wrong = known[key] = (comparison.find_stale(*key), comparison.find_clobbered(*key))
            if wrong != (0, 0):
                found.append(Differing(path, tagged, sighting, *wrong))
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
    """Finds the readers where operations begin to be wrong, write by write in program order.

    concerned: the writes to ask about, a bit each.
    """
    wrong: dict[TagPath, Labels] = {}
    sightings: defaultdict[TagPath, list[Differing]] = defaultdict(list)
    for one in differing:
        bits = one.wrong(verdict) & concerned
        if bits and one.is_same:
            wrong[one.path] = wrong.get(one.path, 0) | bits
            sightings[one.path].append(one)
    upstream = _Upstream(wrong, intended, actual)
    slices: defaultdict[int, set[int]] = defaultdict(set)
    for write in actual.writes:
        slices[write.write].update(write.slices)
    found: defaultdict[int, list[WrongRead]] = defaultdict(list)
    ranks: defaultdict[tuple[int, int], int] = defaultdict(int)
    for path in sorted(wrong, key=_in_order):
        first = wrong[path] & ~upstream.find(path)
        for one in sightings[path] if first else ():
            for write in comparison.space.writes_of(one.wrong(verdict) & first):
                sighting = one.sighting
                operand, place = find_source(write, sighting, slices[write], comparison.space)
                reader = sighting.scheduled.id
                rank = ranks[write, reader]
                ranks[write, reader] += 1
                found[write].append(WrongRead(write, path, reader, sighting, place, operand, rank))
    return tuple([read for write in sorted(found) for read in found[write]])


def _in_order(path: TagPath) -> tuple[int, TagPath]:
    return path[-1], path


class _Upstream:
    """Finds the writes about which an operation upstream is wrong, directly or behind ones that were folded away."""

    def __init__(self, wrong: Mapping[TagPath, Labels], intended: Intended, actual: Actual) -> None:
        self._wrong = wrong
        self._intended = intended
        self._actual = actual
        self._found: dict[TagPath, Labels] = {}

    def find(self, path: TagPath) -> Labels:
        """Returns a bit for each such write."""
        tagged = self._intended.tagged
        pending = [path]
        while pending:
            current = pending[-1]
            if current in self._found:
                pending.pop()
                continue
            here = _in_order(current)
            operands = [
                operand
                for operand in tagged[current].operands
                if operand in tagged and (operand[-1] < here[0] or _in_order(operand) < here)
            ]
            folded = [one for one in operands if one not in self._wrong and not self._is_seen(one)]
            missing = [one for one in folded if one not in self._found]
            if missing:
                pending += missing
                continue
            bits = unite(self._wrong.get(operand, 0) for operand in operands)
            self._found[current] = bits | unite(self._found[operand] for operand in folded)
        return self._found[path]

    def _is_seen(self, path: TagPath) -> bool:
        opcode = self._intended.tagged[path].opcode
        return any(is_same_operation(opcode, s.instruction) for s in self._actual.sightings.get(path, ()))


def find_own_sightings(
    differing: tuple[Differing, ...], is_own: Callable[[TagPath, HloInstruction], bool]
) -> tuple[Differing, ...]:
    """Selects the sightings that surely are the author's own operations (`is_own`).

    Passes copy an operation's metadata to instructions that compute something else (parts of a reassociated sum, say).
    """
    same = [one for one in differing if one.sighting.instruction.opcode == one.tagged.opcode]
    return tuple([one for one in same if is_own(one.path, one.sighting.instruction)])


def find_source(write: int, sighting: Sighting, slices: set[int], space: LabelSpace) -> tuple[int | None, Place]:
    """Returns the operand by which the reader gets the value from before, and the place of that value."""
    original = space.all_original(write)
    carrying = [(number, place) for number, place, labels in sighting.reads if labels & original]
    for number, place in carrying:
        if place in slices:
            return number, Place.SAME_BYTES
    if carrying:
        return carrying[0][0], Place.COPY
    return None, Place.COMPUTED_ANEW
