"""Finds races: reads of bytes that a kernel overwrites while nothing, not even the schedule, orders the read and the
write.

A dependence set says on which hidden writes a value depends (see `evaluation.labels`).

Instructions between an asynchronous start and its done may run while the operation is in flight, on its own stream. XLA does
not order them with the operation: it believes that the kernel only reads its operand, and two reads may overlap. There are
two forms of a race. The operation may be in flight while the kernel runs, and access bytes that the kernel overwrites. Or
the kernel itself is in flight, in an asynchronous computation, while another instruction reads bytes that it overwrites. A
call, loop or branch around the kernel counts as the kernel, at every level of the nesting.

- A start without a done in its computation is in flight until the computation ends.
- A collective that XLA has made synchronous (`is_sync`) is not in flight.
- Commands of one command buffer may run at the same time too, if the command buffer keeps only the order that XLA
  declares. In the schedule's order, XLA's default, command buffers add no race.
- Two instructions on one stream are ordered, even if the second is launched before the first has ended (programmatic
  dependent launch): the second waits before its first load.

A command buffer is a thunk around thunks (see `hlo.thunks`). Each thunk of a sequence is matched to an instruction of
the computation from which the sequence was emitted: both lists in order, of equal length and compatible kinds. If a
sequence does not match, a coverage note says so, and no race is reported. XLA before 2025 kept command buffers in the
module, as a `call` of a computation named `command_buffer`.

Two commands whose declared uses of buffers conflict (one writes bytes that the other reads or writes) keep the order of the
schedule. So do two commands with a control edge between them (ExecutionGraph in xla/runtime/execution_graph.cc). A hidden
write is declared as a read, so it conflicts with no reader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.writes import Frame
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.thunks import ASYNC_DONE, ASYNC_START, COMMAND_BUFFER, CommandOrder, Thunk, ThunkSequence

_NOTHING = having(Trait.LAUNCHES_NOTHING)
_OWN_KINDS: Mapping[str, str] = {
    "while": "kWhile",
    "conditional": "kConditional",
    "async-start": ASYNC_START,
    "async-done": ASYNC_DONE,
    "partition-id": "kPartitionId",
    "replica-id": "kReplicaId",
}
"""Maps the opcodes that XLA always emits as a thunk of one kind to the name of that kind."""
_OF_OTHERS = frozenset({*_OWN_KINDS.values(), COMMAND_BUFFER})
"""Kinds of thunks that XLA emits only for the opcodes in `_OWN_KINDS`, or for command buffers."""
_OLD_NAME = "command_buffer"
"""The name of a command buffer's computation in modules of XLA before 2025 begins with this."""


@dataclass(frozen=True, slots=True, eq=False)
class CommandBuffer:
    """The instructions of one computation that one command buffer runs, in the order of the schedule."""

    computation: HloComputation
    commands: tuple[HloInstruction, ...]


@dataclass(frozen=True, slots=True)
class FoundCommands:
    """The command buffers of a module, and notes about the computations whose command buffers are unknown."""

    buffers: tuple[CommandBuffer, ...]
    notes: tuple[str, ...] = ()
    """Coverage notes: thunk sequences that could not be matched with instructions."""


def find_command_buffers(module: HloModule, thunks: ThunkSequence | None) -> FoundCommands:
    """Returns all command buffers of a module. thunks: the steps that XLA's runtime executes, from the dump; None if
    unknown.
    """
    old = tuple(
        CommandBuffer(computation, tuple(_list_launched(computation)))
        for computation in module.computations.values()
        if computation.name.startswith(_OLD_NAME) and computation.sequence
    )
    if thunks is None:
        return FoundCommands(
            old, () if old else ("there is no thunk sequence, so races in command buffers are not found",)
        )
    if not thunks.shows_nested:
        return FoundCommands(old)
    matcher = _Matcher(module)
    matcher.match(module.entry, thunks)
    notes = tuple(
        f"the thunks of `{name}` could not be matched with instructions, so races in its command buffers are not found"
        for name in matcher.unmatched
    )
    return FoundCommands((*old, *matcher.found), notes)


class _Matcher:
    def __init__(self, module: HloModule) -> None:
        self._module = module
        self.found: list[CommandBuffer] = []
        self.unmatched: dict[str, None] = {}

    def match(self, computation: HloComputation, sequence: ThunkSequence) -> None:
        """Matches the thunks of a sequence with the instructions of a computation, also in nested sequences. Adds the
        command buffers to `found`. Adds the name of a computation to `unmatched` if its instructions do not match.
        """
        thunks = list(_flatten(sequence))
        launched = list(_list_launched(computation))
        if len(thunks) != len(launched) or not all(
            _go_together(thunk, instruction) for (thunk, _), instruction in zip(thunks, launched, strict=True)
        ):
            self.unmatched[computation.name] = None
            return
        buffers: dict[Thunk, list[HloInstruction]] = {}
        for (thunk, buffer), instruction in zip(thunks, launched, strict=True):
            if buffer is not None:
                buffers.setdefault(buffer, []).append(instruction)
            for number, (label, inner) in enumerate(thunk.nested):
                callee = _find_callee(instruction, number, label)
                if callee is not None:
                    self.match(self._module.computations[callee], inner)
        self.found += [CommandBuffer(computation, tuple(commands)) for commands in buffers.values()]


def _flatten(sequence: ThunkSequence) -> Iterator[tuple[Thunk, Thunk | None]]:
    """Yields each thunk of the sequence with the command buffer that contains it, or with None if none does."""
    for thunk in sequence.thunks:
        if thunk.kind == COMMAND_BUFFER:
            for _, commands in thunk.nested:
                yield from ((command, thunk) for command in commands.thunks)
        else:
            yield thunk, None


def _list_launched(computation: HloComputation) -> Iterator[HloInstruction]:
    return (instruction for instruction in computation.sequence if instruction.opcode not in _NOTHING)


def _go_together(thunk: Thunk, instruction: HloInstruction) -> bool:
    """Returns whether XLA may have emitted the thunk for this instruction, judged by kind and opcode."""
    own = _OWN_KINDS.get(instruction.opcode)
    return thunk.kind == own if own is not None else thunk.kind not in _OF_OTHERS


def _find_callee(instruction: HloInstruction, number: int, label: str) -> int | None:
    """Returns the id of the computation from which XLA emitted this nested thunk sequence; None if the instruction is
    neither a loop nor a conditional. number, label: position and name of the sequence in its thunk.

    A branch is found by its number, because both branches of a predicate may be called `false_branch` or `true_branch`.
    """
    called = instruction.called_computations
    if instruction.opcode == "while":
        return called[0] if label == "body" else called[1]
    return called[number] if instruction.opcode == "conditional" and number < len(called) else None


def find_unordered(
    buffer: CommandBuffer, command: HloInstruction, buffers: BufferAssignment, positions: Positions
) -> tuple[HloInstruction, ...]:
    """Returns the commands of a command buffer that XLA does not order with `command`, so that they may run at the same
    time. buffers: XLA's buffer assignment. positions: the place of each value in it.
    """
    at = next((n for n, other in enumerate(buffer.commands) if other is command), None)
    if at is None:
        return ()
    uses = [_find_uses(other, buffers, positions) for other in buffer.commands]
    after = _find_reached(buffer.commands, uses, range(at, len(uses)), buffers, forward=True)
    before = _find_reached(buffer.commands, uses, range(at, -1, -1), buffers, forward=False)
    return tuple([other for n, other in enumerate(buffer.commands) if n not in after and n not in before])


type _Uses = tuple[frozenset[int], frozenset[int]]
"""(Slices that a command declares as read, slices that it declares as written), each by its number in the buffer
assignment.
"""


def _find_uses(command: HloInstruction, buffers: BufferAssignment, positions: Positions) -> _Uses:
    reads = frozenset(n for operand in command.operands for n in positions.locate(operand) if n is not None)
    writes = frozenset(number for _, number in buffers.definitions.get(command.id, ()))
    if command.called_computations and command.opcode != "fusion":  # the callee may write all that it gets
        writes |= reads | frozenset(n for n in positions.locate(command) if n is not None)
    return reads, writes


def _find_reached(
    commands: tuple[HloInstruction, ...], uses: list[_Uses], numbers: range, buffers: BufferAssignment, *, forward: bool
) -> frozenset[int]:
    """Returns the positions in `commands` that a chain of conflicts and control edges links to the first command of
    `numbers`, this one included.

    numbers: the positions to look at, in order. uses: the declared uses of each command. forward: whether `numbers`
    ascends, that is, whether to search for later commands.
    """
    reached: set[int] = set()
    ids: set[int] = set()
    wanted: set[int] = set()
    read = written = frozenset[int]()
    for number in numbers:
        reads, writes = uses[number]
        edge = (not ids.isdisjoint(commands[number].control_predecessors)) if forward else commands[number].id in wanted
        if not reached or edge or not writes.isdisjoint(read | written) or not reads.isdisjoint(written):
            reached.add(number)
            ids.add(commands[number].id)
            wanted |= set(commands[number].control_predecessors)
            read |= _spread(reads, buffers)
            written |= _spread(writes, buffers)
    return frozenset(reached)


def _spread(numbers: frozenset[int], buffers: BufferAssignment) -> frozenset[int]:
    """Returns the numbers of these slices, and of all slices that share bytes with one of them."""
    return frozenset(other for number in numbers for other in buffers.overlapping[number])


_STARTS = having(Trait.START, Trait.PEER_TO_PEER)
_DONES = having(Trait.DONE)
_PASSES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
"""Opcodes that may come between a start and its done, along the first operand."""
_READS_NOTHING = having(Trait.LAUNCHES_NOTHING, Trait.UPDATE, Trait.DONE)
_SYNCHRONOUS = b'"is_sync":true'


class RaceKind(Enum):
    """Who is in flight in a race: the reader, the kernel, or both as commands of one command buffer."""

    READER_IN_FLIGHT = "reader in flight"
    KERNEL_IN_FLIGHT = "kernel in flight"
    ONE_COMMAND_BUFFER = "one command buffer"


@dataclass(frozen=True, slots=True)
class RacedRead:
    """A read that runs at the same time as a kernel. It may find old or new contents in any of the overwritten bytes. It is
    the key of a mark, an extra bit in the dependence set of every value computed from the read.
    """

    write: int
    """Index of the hidden write."""
    reader: int
    """Id of the scheduled instruction that reads; for an asynchronous operation, of its start."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Race:
    """One hidden write and one reader that may run at the same time, because nothing orders them."""

    write: int
    """Index of the hidden write."""
    kind: RaceKind
    kernel: HloInstruction
    """The instruction that runs the kernel, in the reader's computation: its call, or a loop or branch around it."""
    reader: HloInstruction
    start: HloInstruction | None
    """Start of the operation that is in flight; None in a command buffer."""
    done: HloInstruction | None

    @property
    def key(self) -> RacedRead:
        return RacedRead(self.write, self.reader.id)


@dataclass(frozen=True, slots=True, eq=False)
class AsyncSpan:
    """An asynchronous operation, and the positions in its computation's sequence between which it is in flight, both
    excluded.
    """

    start: HloInstruction
    done: HloInstruction | None
    first: int
    last: int


def find_spans(computation: HloComputation) -> tuple[AsyncSpan, ...]:
    """Returns the asynchronous operations that start in a computation."""
    sequence = computation.sequence
    started: dict[int, int] = {}
    """Maps the id of a start, or of an instruction that passes on the result of a start, to the position of the start.
    """
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
    """Returns every race between one of the writes and a reader. command_buffers: the command buffers that keep
    only the order that XLA declares, and so may change the order of the schedule.
    """
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
    """Maps the id of a computation to a pair: the position of each instruction in the computation's sequence, by id,
    and the spans of the sequence in which an asynchronous operation is in flight.
    """

    def find(self, write: ActualWrite, frame: Frame) -> Iterator[Race]:
        """Yields the races of one write with the readers in one computation. frame: the computation, and the instruction in
        it that runs the kernel.
        """
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
    """Returns the marks (extra bits in dependence sets) that the results of racing readers get, by instruction id. Returns
    two maps: one for starts of asynchronous operations, and one for all other readers.
    """
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
    """The races between the hidden writes of one schedule and its readers."""

    races: tuple[Race, ...] = ()
    notes: tuple[str, ...] = ()
    """Coverage notes: cases of concurrent execution that the analysis could not model."""


def find_concurrency(
    module: HloModule,
    buffers: BufferAssignment,
    positions: Positions,
    writes: tuple[ActualWrite, ...],
    *,
    thunks: ThunkSequence | None,
    command_order: CommandOrder,
) -> Concurrency:
    """Returns the races between hidden writes and readers, and coverage notes.

    thunks: the steps that XLA's runtime executes for this module; None if they are unknown. command_order: the order
    that the runtime keeps within a command buffer.
    """
    if not writes:
        return Concurrency()
    command_buffers: tuple[CommandBuffer, ...] = ()
    notes: tuple[str, ...] = ()
    if command_order is not CommandOrder.SCHEDULE:
        found = find_command_buffers(module, thunks)
        command_buffers, notes = found.buffers, found.notes
    if command_order is CommandOrder.UNKNOWN:
        notes = (
            "the order of commands within a command buffer is unknown: two commands count as ordered only if they share a"
            " buffer that one of them writes, or have a control edge",
            *notes,
        )
    return Concurrency(find_races(writes, buffers, positions, command_buffers), notes)
