"""The reads of a schedule that make outputs wrong, or right by luck, as accesses of a `ScheduleView`.

(1) What findings name.
(2) Findings of reads do not name what is wrong because XLA made one call of two kernel calls (`Search`). For each wrong
    output that none names, the first operation in program order whose set is wrong, and from which the output is computed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evidence import Differing, find_differing
from ligerdiag.analysis.evidence import Place as WrongPlace
from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.read_kinds import ReadJudge
from ligerdiag.analysis.search import ReadFinding
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.value_readers import Overwritten
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import Verdict
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.schedule_view import Access, AccessKind, Place, ReadKind

_PLACES = {
    WrongPlace.SAME_MEMORY: Place.SAME_BYTES,
    WrongPlace.OTHER_MEMORY: Place.COPY,
    WrongPlace.NOWHERE: Place.COMPUTED_ANEW,
}
_WRONG = {Verdict.CLOBBERED: ReadKind.CLOBBERED, Verdict.STALE: ReadKind.STALE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Performed:
    """A hidden write that the schedule performs, and the value that it hits."""

    write: HiddenWrite
    actual: ActualWrite
    overwritten: Overwritten
    kernel: int
    """Id of the step that runs the kernel."""


@dataclass(slots=True, eq=False)
class WrongReads:
    """Lists them."""

    context: Context
    flow: ValueFlow
    performed: tuple[Performed, ...]
    judge: ReadJudge
    reached: Mapping[int, int]
    """Id of a step to the outputs that are computed from it, a bit for each by its number."""
    _differing: tuple[Differing, ...] | None = None
    _named: Mapping[int, list[tuple[ReadFinding, ReadKind]]] = field(init=False)
    """By HiddenWrite index."""

    def __post_init__(self) -> None:
        named: dict[int, list[tuple[ReadFinding, ReadKind]]] = {}
        for kind, findings in (
            (ReadKind.STALE, self.context.stale),
            (ReadKind.CLOBBERED, self.context.clobbered),
            (ReadKind.LATENT, self.context.latent),
        ):
            for one in findings:
                named.setdefault(one.write.index, []).append((one, kind))
        self._named = named

    def list(self, write: int) -> Iterator[Access]:
        """All about this write; a step may be there several times."""
        named = self._named.get(write, ())
        for finding, kind in named:
            yield Access(
                buffer=write,
                step=self.flow.find_step(finding.reader.id),
                kind=AccessKind.READ,
                read=kind,
                place=self._find_place(finding, kind),
                outputs=finding.outputs,
            )
        for verdict, kind in _WRONG.items():
            known = {name for finding, own in named if own is kind for name in finding.outputs}
            wanted = {
                number: name
                for number, (name, output) in enumerate(self.context.outputs.items())
                if name not in known and any(c.write == write and c.verdict is verdict for c in output.causes)
            }
            if wanted:
                yield from self._find_unnamed(write, wanted, verdict)

    def _find_unnamed(self, write: int, wanted: Mapping[int, str], verdict: Verdict) -> Iterator[Access]:
        """(2). wanted: outputs by number."""
        if self._differing is None:
            found = find_differing(self.context.intended, self.context.actual, self.judge.comparison)
            self._differing = tuple(sorted(found, key=lambda one: (one.path[-1], one.path)))
        bit = self.judge.space.bits_of((write,))
        left = sum(1 << number for number in wanted)
        for one in self._differing:
            if not one.wrong(verdict) & bit or not one.is_same:
                continue
            step = self.flow.find_step(one.sighting.scheduled.id)
            reached = self.reached.get(step, 0) & left
            if reached:
                left &= ~reached
                yield Access(
                    buffer=write,
                    step=step,
                    kind=AccessKind.READ,
                    read=_WRONG[verdict],
                    place=self._find_place_of(write, one, verdict),
                    outputs=tuple([name for number, name in wanted.items() if reached >> number & 1]),
                )
            if not left:
                return

    def _find_place_of(self, write: int, one: Differing, verdict: Verdict) -> Place:
        slices = {
            place for performed in self.performed if performed.write.index == write for place in performed.actual.slices
        }
        if verdict is Verdict.CLOBBERED:
            return Place.SAME_BYTES if any(place in slices for _, place, _ in one.sighting.reads) else Place.COPY
        original = self.judge.space.all_original(write)
        carrying = [place for _, place, labels in one.sighting.reads if labels & original]
        if not carrying:
            return Place.COMPUTED_ANEW
        return Place.SAME_BYTES if any(place in slices for place in carrying) else Place.COPY

    def _find_place(self, finding: ReadFinding, kind: ReadKind) -> Place:
        if finding.wrong is None:
            return Place.SAME_BYTES
        if kind is not ReadKind.CLOBBERED:
            return _PLACES[finding.wrong.place]
        values = [one.overwritten.definition for one in self.performed if one.write.index == finding.write.index]
        resolve = self.flow.readers.positions.resolve
        read = (resolve(operand, at) for operand in finding.reader.operands for at in iterate_leaves(operand.shape))
        return Place.SAME_BYTES if any(one in values for one in read) else Place.COPY
