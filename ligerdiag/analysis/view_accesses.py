"""Who touches the bytes that kernels overwrite, for a `ScheduleView`: accesses, and which read is which (see `read_kinds`).

Of many readers those that a finding names are kept, then those that run nearest to the kernel.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.read_kinds import Read, ReadJudge, find_worst
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.value_readers import NO_READERS
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.analysis.wrong_reads import Performed, WrongReads
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.neighbourhood import Origin
from ligerdiag.schedule_view import Access, AccessKind, Place, ReadKind

MOST_READS = 60
"""Reads of one buffer that are kept beside those of findings."""
MOST_NAMED = 100
"""Reads of one buffer that findings name and that are kept."""
_REUSES = 2
"""Other values in the same bytes that are kept, on each side of the kernel."""
_PLACE_OF_ORIGIN = {Origin.VALUE: Place.SAME_BYTES, Origin.SOURCE: Place.COPY, Origin.NOWHERE: Place.COMPUTED_ANEW}


@dataclass(slots=True, eq=False)
class AccessFinder:
    """Finds the accesses of all hidden writes of one schedule."""

    context: Context
    flow: ValueFlow
    performed: tuple[Performed, ...]
    notes: list[str] = field(default_factory=list[str])
    """What was left out, a line each."""
    _judge: ReadJudge = field(init=False)
    _reached: Mapping[int, int] = field(init=False)
    """Id of a step to the outputs that it reaches, a bit for each by its number."""
    _users: Mapping[int, set[int]] = field(init=False)
    """Id of a step to those that use its values."""
    _results: Mapping[int, list[str]] = field(init=False)
    """Id of a step to the outputs that it computes."""
    _definers: Mapping[int, list[HloInstruction]] | None = None

    def __post_init__(self) -> None:
        self._judge = ReadJudge(self.context)
        reached: dict[int, int] = {}
        users: dict[int, set[int]] = {}
        for node, bits in self.flow.compute_reach().items():
            step = self.flow.find_step(node[0])
            reached[step] = reached.get(step, 0) | bits
            for source, _ in self.flow.list_sources(node):
                users.setdefault(self.flow.find_step(source), set()).add(step)
        results: dict[int, list[str]] = {}
        for name, nodes in zip(self.context.outputs, self.flow.list_output_nodes(), strict=False):
            for number, _ in nodes:
                results.setdefault(self.flow.find_step(number), []).append(name)
        self._reached, self._users, self._results = reached, users, results

    def find(self) -> tuple[Access, ...]:
        """All of them, by the LogicalTime of their steps."""
        wrong = WrongReads(self.context, self.flow, self.performed, self._judge, self._reached)
        found: list[Access] = []
        for write in self.context.writes:
            reads = list(wrong.list(write.index))
            known: dict[int, ReadKind] = {read.step: read.read for read in reads}
            others: list[Access] = []
            for one in self.performed:
                if one.write.index == write.index:
                    found += self._list_around(one)
                    others += self._list_others(one, known)
            found += _merge(self._limit(write, reads, others))
        times = self.flow.readers.times
        return tuple(sorted(dict.fromkeys(found), key=lambda one: (times[one.step], one.buffer)))

    def _list_around(self, one: Performed) -> Iterator[Access]:
        """The value's definition, the kernel, and what else stands in the same bytes."""
        maker = self.flow.find_step(one.overwritten.definition[0])
        if maker in self.flow.instructions:
            yield Access(buffer=one.write.index, step=maker, kind=AccessKind.DEFINE)
        yield Access(buffer=one.write.index, step=one.kernel, kind=AccessKind.HIDDEN_WRITE)
        for step in self._find_reuses(one, maker):
            yield Access(buffer=one.write.index, step=step, kind=AccessKind.REUSE)

    def _list_others(self, one: Performed, known: Mapping[int, ReadKind]) -> Iterator[Access]:
        """Reads that no finding names."""
        readers, overwritten = self.flow.readers, one.overwritten
        seen: set[int] = set()
        for read in readers.find_reads(overwritten):
            seen.add(read.scheduled.instruction.id)
            yield from self._judge_read(one, known, read.scheduled.anchor, read.operations, read.operand, read.origin)
        for scheduled, sighting in readers.find_recomputing(one.write, overwritten, seen):
            operations = (sighting.instruction,)
            yield from self._judge_read(one, known, scheduled.anchor, operations, None, Origin.NOWHERE)

    def _judge_read(  # noqa: PLR0917
        self,
        one: Performed,
        known: Mapping[int, ReadKind],
        reader: HloInstruction,
        operations: tuple[HloInstruction, ...],
        operand: int | None,
        origin: Origin,
    ) -> Iterator[Access]:
        step = self.flow.find_step(reader.id)
        if step in known:
            return
        bits = self._reached.get(step, 0)
        kernel = one.overwritten.kernel
        kind, outputs = self._judge.judge(
            Read(
                write=one.actual,
                kernel=kernel,
                reader=reader,
                operations=operations,
                operand=operand,
                origin=origin,
                may_see=origin is Origin.VALUE and self.flow.is_seen(kernel, one.overwritten.definition, reader),
                outputs=tuple([name for number, name in enumerate(self.context.outputs) if bits >> number & 1]),
                taken_by=self._find_taken(step, one.write, known),
            )
        )
        yield Access(
            buffer=one.write.index,
            step=step,
            kind=AccessKind.READ,
            read=kind,
            place=_PLACE_OF_ORIGIN[origin],
            outputs=outputs,
        )

    def _find_taken(self, step: int, write: HiddenWrite, known: Mapping[int, ReadKind]) -> ReadKind:
        """What is known of all that takes the step's result."""
        kinds = {known.get(user, ReadKind.NONE) for user in self._users.get(step, ())}
        kinds |= {self._judge.say_of_output(name, write.index) for name in self._results.get(step, ())}
        return kinds.pop() if len(kinds) == 1 else ReadKind.NONE

    def _limit(self, write: HiddenWrite, named: list[Access], others: list[Access]) -> list[Access]:
        times = self.flow.readers.times
        kernels = [times[one.overwritten.kernel.id] for one in self.performed if one.write is write]
        others.sort(key=lambda one: min([abs(times[one.step] - time) for time in kernels], default=0))
        kept = [*named[:MOST_NAMED], *others[:MOST_READS]]
        left = {one.step for one in (*named, *others)} - {one.step for one in kept}
        if left:
            self.notes.append(
                f"{len(left)} more readers of what `{write.kernel}` overwrites in operand {write.operand} are not shown"
            )
        return kept

    def _find_reuses(self, one: Performed, maker: int) -> Iterator[int]:
        """Steps of the values that XLA puts into the same bytes, the nearest ones before and after the kernel."""
        if self._definers is None:
            self._definers = self._find_definers()
        times = self.flow.readers.times
        slices = [n for place in one.actual.slices if place >= 0 for n in self.context.buffers.overlapping[place]]
        steps = {self.flow.find_step(other.id) for number in slices for other in self._definers.get(number, ())}
        now = times[one.kernel]
        others = sorted(steps - {maker}, key=lambda step: (abs(times[step] - now), step))
        yield from [step for step in others if times[step] < now][:_REUSES]
        yield from [step for step in others if times[step] >= now][:_REUSES]

    def _find_definers(self) -> Mapping[int, list[HloInstruction]]:
        """Slice number to the scheduled instructions that compute a value there."""
        times, found = self.flow.readers.times, dict[int, list[HloInstruction]]()
        for number, defined in self.context.buffers.definitions.items():
            instruction = self.flow.instructions.get(number)
            if instruction is not None and number in times and instruction.opcode not in NO_READERS:
                for _, place in defined:
                    found.setdefault(place, []).append(instruction)
        return found


def _merge(reads: list[Access]) -> Iterator[Access]:
    """One for each step: the worst."""
    by_step: dict[int, list[Access]] = {}
    for read in reads:
        by_step.setdefault(read.step, []).append(read)
    for same in by_step.values():
        worst = find_worst([read.read for read in same])
        first = next(read for read in same if read.read is worst)
        outputs = dict.fromkeys(name for read in same if read.read is worst for name in read.outputs)
        yield replace(first, outputs=tuple(outputs))
