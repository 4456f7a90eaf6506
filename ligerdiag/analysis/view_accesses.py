"""Who touches the bytes that kernels overwrite, for a `ScheduleView`. Which read is which, `verdict.reads` says.

Of many readers those that are blamed are kept, then those that run nearest to the kernel.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.followed_writes import Performed
from ligerdiag.analysis.value_readers import NO_READERS
from ligerdiag.analysis.verdict.verdicts import ReadVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.schedule_view import Access, AccessKind

MOST_READS = 60
"""Reads of one buffer that are kept beside those that are blamed."""
MOST_NAMED = 100
"""Reads of one buffer that are blamed and kept."""
_REUSES = 2
"""Other values in the same bytes that are kept, on each side of the kernel."""


@dataclass(slots=True, eq=False)
class AccessFinder:
    """Finds the accesses of all hidden writes of one schedule."""

    context: Context
    notes: list[str] = field(default_factory=list[str])
    """What was left out, a line each."""
    _definers: Mapping[int, list[HloInstruction]] | None = None

    def find(self) -> tuple[Access, ...]:
        """All of them, by the LogicalTime of their steps."""
        found: list[Access] = []
        for write in self.context.writes:
            for one in self._list_performed(write):
                found += self._list_around(one)
            found += [_describe(read) for read in self._choose_reads(write)]
        times = self.context.logical_times
        return tuple(sorted(dict.fromkeys(found), key=lambda one: (times[one.step], one.buffer)))

    def _list_performed(self, write: HiddenWrite) -> list[Performed]:
        return [one for one in self.context.followed.performed if one.write is write]

    def _list_around(self, one: Performed) -> Iterator[Access]:
        """The value's definition, the kernel, and what else stands in the same bytes."""
        flow = self.context.followed.flow
        maker = flow.find_step(one.overwritten.definition[0])
        if maker in flow.instructions:
            yield Access(buffer=one.write.index, step=maker, kind=AccessKind.DEFINE)
        yield Access(buffer=one.write.index, step=one.kernel, kind=AccessKind.HIDDEN_WRITE)
        for step in self._find_reuses(one, maker):
            yield Access(buffer=one.write.index, step=step, kind=AccessKind.REUSE)

    def _choose_reads(self, write: HiddenWrite) -> list[ReadVerdict]:
        times = self.context.logical_times
        kernels = [times[one.overwritten.kernel.id] for one in self._list_performed(write)]
        reads = [read for read in self.context.reads if read.write == write.index]
        named = [read for read in reads if read.cause.is_of_outputs]
        others = [read for read in reads if not read.cause.is_of_outputs]
        others.sort(key=lambda one: min([abs(times[one.step] - time) for time in kernels], default=0))
        kept = [*named[:MOST_NAMED], *others[:MOST_READS]]
        if len(kept) < len(reads):
            self.notes.append(
                f"{len(reads) - len(kept)} more readers of what `{write.kernel}` overwrites in operand {write.operand} are"
                " not shown"
            )
        return kept

    def _find_reuses(self, one: Performed, maker: int) -> Iterator[int]:
        """Steps of the values that XLA puts into the same bytes, the nearest ones before and after the kernel."""
        if self._definers is None:
            self._definers = self._find_definers()
        times, flow = self.context.logical_times, self.context.followed.flow
        slices = [n for place in one.actual.slices if place >= 0 for n in self.context.buffers.overlapping[place]]
        steps = {flow.find_step(other.id) for number in slices for other in self._definers.get(number, ())}
        now = times[one.kernel]
        others = sorted(steps - {maker}, key=lambda step: (abs(times[step] - now), step))
        yield from [step for step in others if times[step] < now][:_REUSES]
        yield from [step for step in others if times[step] >= now][:_REUSES]

    def _find_definers(self) -> Mapping[int, list[HloInstruction]]:
        """Slice number to the scheduled instructions that compute a value there."""
        times, found = self.context.logical_times, dict[int, list[HloInstruction]]()
        for number, defined in self.context.buffers.definitions.items():
            instruction = self.context.followed.flow.instructions.get(number)
            if instruction is not None and number in times and instruction.opcode not in NO_READERS:
                for _, place in defined:
                    found.setdefault(place, []).append(instruction)
        return found


def _describe(read: ReadVerdict) -> Access:
    return Access(
        buffer=read.write,
        step=read.step,
        kind=AccessKind.READ,
        read=read.kind,
        place=read.place,
        outputs=read.outputs,
    )
