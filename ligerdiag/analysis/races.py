"""Finds races: reads of bytes that a kernel overwrites without any order between the two, not even the schedule's.

Instructions between a start and its done may run while the operation is in flight, on its own stream. XLA orders
nothing there: it believes that the kernel only reads its operand, and two reads may overlap. Either the operation is in
flight while the kernel runs, and touches bytes that the kernel overwrites; or the kernel itself is in flight, in an
asynchronous computation, while another instruction reads them. A call, loop or branch around the kernel counts as the
kernel, at every level of the nesting.

- A start without a done in its computation is in flight to the computation's end.
- A collective that XLA has made synchronous (`is_sync`) is not in flight.
- Commands of one command buffer may run at the same time too, if it keeps only the declared order (`command_buffers`).
  In the schedule's order, XLA's default, command buffers add no race.
- Two instructions on one stream are ordered, and so are a kernel and one that is launched before it has ended
  (programmatic dependent launch): that one waits before its first load.

If a command of a command buffer cannot be matched to an instruction, a coverage note says so, and no race is reported.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ligerdiag.analysis.command_buffers import CommandBuffer, find_command_buffers, find_unordered
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.writes import Frame
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence

_STARTS = having(Trait.START, Trait.PEER_TO_PEER)
_DONES = having(Trait.DONE)
_PASSES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
"""Opcodes that may come between a start and its done, along the first operand."""
_READS_NOTHING = having(Trait.LAUNCHES_NOTHING, Trait.UPDATE, Trait.DONE)
_SYNCHRONOUS = b'"is_sync":true'


class RaceKind(Enum):
    """The side that runs at the same time as the other."""

    READER_IN_FLIGHT = "reader in flight"
    KERNEL_IN_FLIGHT = "kernel in flight"
    ONE_COMMAND_BUFFER = "one command buffer"


@dataclass(frozen=True, slots=True)
class RacedRead:
    """Key of a mark: `reader` may see any part of the overwritten bytes, old or new."""

    write: int
    """HiddenWrite index."""
    reader: int
    """Id of the scheduled instruction that reads, or of its start."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Race:
    """One hidden write and one reader that nothing orders."""

    write: int
    """HiddenWrite index."""
    kind: RaceKind
    kernel: HloInstruction
    """The instruction that runs the kernel, in the reader's computation."""
    reader: HloInstruction
    start: HloInstruction | None
    """Start of the operation in flight; None in a command buffer."""
    done: HloInstruction | None

    @property
    def key(self) -> RacedRead:
        return RacedRead(self.write, self.reader.id)


@dataclass(frozen=True, slots=True, eq=False)
class AsyncSpan:
    """An asynchronous operation: in flight between two positions of its computation's sequence, these excluded."""

    start: HloInstruction
    done: HloInstruction | None
    first: int
    last: int


def find_spans(computation: HloComputation) -> tuple[AsyncSpan, ...]:
    """Finds the asynchronous operations that start in this computation."""
    sequence = computation.sequence
    started: dict[int, int] = {}
    """Id of a start, or of what passes it on, to the start's position."""
    done: dict[int, int] = {}
    for at, instruction in enumerate(sequence):
        opcode = instruction.opcode
        if opcode in _STARTS:
            if _SYNCHRONOUS not in instruction.proto.backend_config:
                started[instruction.id] = at
        elif instruction.operands and instruction.operands[0].id in started:
            first = started[instruction.operands[0].id]
            if opcode in _DONES:
                done[first] = at
            elif opcode in _PASSES:
                started[instruction.id] = first
    ends = {first: done.get(first, len(sequence)) for first in started.values()}
    return tuple(
        AsyncSpan(sequence[first], sequence[end] if first in done else None, first, end) for first, end in ends.items()
    )


def find_races(
    writes: tuple[ActualWrite, ...],
    buffers: BufferAssignment,
    positions: Positions,
    command_buffers: tuple[CommandBuffer, ...] = (),
) -> tuple[Race, ...]:
    """Finds every race about these writes. command_buffers: those that keep only the declared order."""
    search = _Search(buffers, positions, command_buffers)
    found: dict[RacedRead, Race] = {}
    for write in writes:
        for frame in write.frames:
            for race in search.find(write, frame):
                found.setdefault(race.key, race)
    return tuple(found.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    _buffers: BufferAssignment
    _positions: Positions
    _command_buffers: tuple[CommandBuffer, ...]
    _seen: dict[int, tuple[Mapping[int, int], tuple[AsyncSpan, ...]]] = field(
        default_factory=dict[int, tuple[Mapping[int, int], tuple[AsyncSpan, ...]]]
    )
    """Computation id to the position of each instruction in its sequence, and the spans in it."""

    def find(self, write: ActualWrite, frame: Frame) -> Iterator[Race]:
        """Finds the races of one write with instructions of one computation around it."""
        computation, kernel = frame.computation, frame.instruction
        sequence = computation.sequence
        if computation.id not in self._seen:
            places = {instruction.id: n for n, instruction in enumerate(sequence)}
            self._seen[computation.id] = places, find_spans(computation)
        places, spans = self._seen[computation.id]
        at = places.get(kernel.id)
        if at is None:
            return
        overwritten = frozenset(n for place in write.slices if place >= 0 for n in self._buffers.overlapping[place])
        for span in spans:
            if span.first < at < span.last and not overwritten.isdisjoint(self._list_touched(span)):
                yield _make(write, RaceKind.READER_IN_FLIGHT, kernel, span.start, span)
            elif span.start is kernel:
                for reader in sequence[span.first + 1 : span.last]:
                    if self._reads(reader, overwritten):
                        yield _make(write, RaceKind.KERNEL_IN_FLIGHT, kernel, reader, span)
        for one in self._command_buffers:
            if one.computation is computation:
                for reader in find_unordered(one, kernel, self._buffers, self._positions):
                    if self._reads(reader, overwritten):
                        yield _make(write, RaceKind.ONE_COMMAND_BUFFER, kernel, reader, None)

    def _reads(self, reader: HloInstruction, overwritten: frozenset[int]) -> bool:
        if reader.opcode in _READS_NOTHING:
            return False
        return any(not overwritten.isdisjoint(self._positions.locate(operand)) for operand in reader.operands)

    def _list_touched(self, span: AsyncSpan) -> Iterator[int | None]:
        for operand in span.start.operands:
            yield from self._positions.locate(operand)
        for instruction in (span.start, span.done):
            if instruction is not None:
                yield from (number for _, number in self._buffers.definitions.get(instruction.id, ()))


def mark_races(races: tuple[Race, ...], space: LabelSpace) -> tuple[Mapping[int, Labels], Mapping[int, Labels]]:
    """Maps instruction ids to marks for their results: starts of operations in flight, and other readers."""
    in_flight: dict[int, Labels] = {}
    others: dict[int, Labels] = {}
    for race in races:
        marks = in_flight if race.reader.opcode in _STARTS else others
        marks[race.reader.id] = marks.get(race.reader.id, 0) | space.mark(race.key)
    return in_flight, others


def join_marks(one: Mapping[int, Labels], other: Mapping[int, Labels]) -> Mapping[int, Labels]:
    if not other:
        return one
    return {number: one.get(number, 0) | other.get(number, 0) for number in one.keys() | other.keys()}


def _make(
    write: ActualWrite, kind: RaceKind, kernel: HloInstruction, reader: HloInstruction, span: AsyncSpan | None
) -> Race:
    start, done = (span.start, span.done) if span is not None else (None, None)
    return Race(write=write.write, kind=kind, kernel=kernel, reader=reader, start=start, done=done)


@dataclass(frozen=True, slots=True, eq=False)
class Concurrency:
    """The races about the hidden writes of one schedule."""

    races: tuple[Race, ...] = ()
    notes: tuple[str, ...] = ()
    """Coverage notes: omissions of the model."""


def find_concurrency(
    module: HloModule,
    buffers: BufferAssignment,
    positions: Positions,
    writes: tuple[ActualWrite, ...],
    *,
    thunks: ThunkSequence | None,
    command_order: CommandOrder,
) -> Concurrency:
    """Finds the races about these writes. thunks: of this module; None if there are none that can be parsed."""
    if not writes:
        return Concurrency()
    command_buffers: tuple[CommandBuffer, ...] = ()
    notes: tuple[str, ...] = ()
    if command_order is not CommandOrder.SCHEDULE:
        found = find_command_buffers(module, thunks)
        command_buffers, notes = found.buffers, found.notes
    if command_order is CommandOrder.UNKNOWN:
        notes = ("the order that command buffers keep is not known: only what buffers declare is believed", *notes)
    return Concurrency(find_races(writes, buffers, positions, command_buffers), notes)
