"""The reads behind wrong and lucky outputs: (1) and (2) of `reads`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.analysis.evaluations import EvaluatedPair
from ligerdiag.analysis.value_flow import FollowedWrites
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.verdict.first_divergence import Differing, find_source
from ligerdiag.analysis.verdict.verdicts import ReadCause, ReadVerdict, Verdicts
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place, ReadKind

WRONG_KINDS = {Verdict.CLOBBERED: ReadKind.CLOBBERED, Verdict.STALE: ReadKind.STALE}


@dataclass(frozen=True, kw_only=True, eq=False)
class BlamedReads:
    """Lists the blamed reads of one schedule."""

    pair: EvaluatedPair
    verdicts: Verdicts
    followed: FollowedWrites
    reached: Mapping[int, int]
    """Id of a step to the outputs that are computed from it, a bit for each by its number."""

    @cached_property
    def _named(self) -> Mapping[int, list[tuple[ReadFinding, ReadKind]]]:
        """By HiddenWrite index."""
        named: defaultdict[int, list[tuple[ReadFinding, ReadKind]]] = defaultdict(list)
        for kind, findings in (
            (ReadKind.STALE, self.verdicts.stale),
            (ReadKind.CLOBBERED, self.verdicts.clobbered),
            (ReadKind.LATENT, self.verdicts.latent),
        ):
            for one in findings:
                named[one.write.index].append((one, kind))
        return named

    @cached_property
    def _differing(self) -> tuple[Differing, ...]:
        """In program order."""
        return tuple(sorted(self.verdicts.differing, key=lambda one: (one.path[-1], one.path)))

    def list(self, write: int) -> Iterator[ReadVerdict]:
        """Lists all about this write; a step may be there several times."""
        for finding, kind in self._named.get(write, ()):
            yield ReadVerdict(
                write=write,
                step=self.followed.flow.find_step(finding.reader.id),
                kind=kind,
                cause=ReadCause.BLAMED,
                place=self._find_place(finding, kind),
                outputs=finding.outputs,
                evidence=finding,
            )
        for verdict in WRONG_KINDS:
            unexplained = frozenset(self.verdicts.list_unexplained(write, verdict))
            if unexplained:
                yield from self._find_first(write, unexplained, verdict)

    def _find_first(self, write: int, unexplained: frozenset[str], verdict: Verdict) -> Iterator[ReadVerdict]:
        """Finds (2): the first operations that diverge on the way to outputs that no read is blamed for."""
        wanted = {number: name for number, name in enumerate(self.verdicts.outputs) if name in unexplained}
        bit = self.pair.space.bits_of((write,))
        left = sum(1 << number for number in wanted)
        for one in self._differing:
            if not one.wrong(verdict) & bit or not one.is_same:
                continue
            step = self.followed.flow.find_step(one.sighting.scheduled.id)
            reached = self.reached.get(step, 0) & left
            if reached:
                left &= ~reached
                yield ReadVerdict(
                    write=write,
                    step=step,
                    kind=WRONG_KINDS[verdict],
                    cause=ReadCause.DIVERGES_FIRST,
                    place=self._find_place_of(write, one, verdict),
                    outputs=tuple([name for number, name in wanted.items() if reached >> number & 1]),
                )
            if not left:
                return

    def _find_place_of(self, write: int, one: Differing, verdict: Verdict) -> Place:
        performed = [some for some in self.followed.performed if some.write.index == write]
        slices = {place for some in performed for place in some.actual.slices}
        if verdict is Verdict.CLOBBERED:
            return Place.SAME_BYTES if any(place in slices for _, place, _ in one.sighting.reads) else Place.COPY
        return find_source(write, one.sighting, slices, self.pair.space)[1]

    def _find_place(self, finding: ReadFinding, kind: ReadKind) -> Place:
        if finding.wrong is None:
            return Place.SAME_BYTES
        if kind is not ReadKind.CLOBBERED:
            return finding.wrong.place
        written = [one for one in self.followed.performed if one.write.index == finding.write.index]
        values = [one.overwritten.definition for one in written]
        resolve = self.followed.flow.readers.positions.resolve
        read = (resolve(operand, at) for operand in finding.reader.operands for at in iterate_leaves(operand.shape))
        return Place.SAME_BYTES if any(one in values for one in read) else Place.COPY
