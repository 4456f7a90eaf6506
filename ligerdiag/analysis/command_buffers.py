"""Finds the command buffers of the schedule: their commands as instructions, and the commands that XLA leaves
unordered.

A command buffer is a thunk around thunks (see `hlo.thunks`). Each thunk of a sequence is matched to an instruction of
the computation from which the sequence was emitted: both lists in order, of equal length and compatible kinds. A
sequence that does not match becomes a note. XLA before 2025 kept command buffers in the module, as a `call` of a
computation named `command_buffer`.

Two commands whose declared uses of buffers conflict (one writes bytes that the other reads or writes) keep the order of
the schedule, and so do those with a control edge (ExecutionGraph in xla/runtime/execution_graph.cc). A hidden write is
declared as a read, so it conflicts with no reader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.thunks import ASYNC_DONE, ASYNC_START, COMMAND_BUFFER, Thunk, ThunkSequence

_NOTHING = having(Trait.LAUNCHES_NOTHING)
_OWN_KINDS: Mapping[str, str] = {
    "while": "kWhile",
    "conditional": "kConditional",
    "async-start": ASYNC_START,
    "async-done": ASYNC_DONE,
    "partition-id": "kPartitionId",
    "replica-id": "kReplicaId",
}
_OF_OTHERS = frozenset({*_OWN_KINDS.values(), COMMAND_BUFFER})
_OLD_NAME = "command_buffer"


@dataclass(frozen=True, slots=True, eq=False)
class CommandBuffer:
    """Instructions of one computation that one command buffer runs, in the order of the schedule."""

    computation: HloComputation
    commands: tuple[HloInstruction, ...]


@dataclass(frozen=True, slots=True)
class FoundCommands:
    """The command buffers of a module."""

    buffers: tuple[CommandBuffer, ...]
    notes: tuple[str, ...] = ()
    """Coverage notes: sequences that could not be matched."""


def find_command_buffers(module: HloModule, thunks: ThunkSequence | None) -> FoundCommands:
    """Finds all command buffers."""
    old = tuple(
        CommandBuffer(computation, tuple(_list_launched(computation)))
        for computation in module.computations.values()
        if computation.name.startswith(_OLD_NAME) and computation.sequence
    )
    if thunks is None:
        return FoundCommands(old, () if old else ("there is no thunk sequence, so command buffers are unknown",))
    if not thunks.shows_nested:
        return FoundCommands(old)
    matcher = _Matcher(module)
    matcher.match(module.entry, thunks)
    notes = tuple(f"the thunks of `{name}` could not be matched with instructions" for name in matcher.unmatched)
    return FoundCommands((*old, *matcher.found), notes)


class _Matcher:
    def __init__(self, module: HloModule) -> None:
        self._module = module
        self.found: list[CommandBuffer] = []
        self.unmatched: dict[str, None] = {}

    def match(self, computation: HloComputation, sequence: ThunkSequence) -> None:
        """Matches a sequence, and the sequences nested in it, with the computation from which it was emitted."""
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
    """Yields each thunk with the command buffer that holds it."""
    for thunk in sequence.thunks:
        if thunk.kind == COMMAND_BUFFER:
            for _, commands in thunk.nested:
                yield from ((command, thunk) for command in commands.thunks)
        else:
            yield thunk, None


def _list_launched(computation: HloComputation) -> Iterator[HloInstruction]:
    return (instruction for instruction in computation.sequence if instruction.opcode not in _NOTHING)


def _go_together(thunk: Thunk, instruction: HloInstruction) -> bool:
    own = _OWN_KINDS.get(instruction.opcode)
    return thunk.kind == own if own is not None else thunk.kind not in _OF_OTHERS


def _find_callee(instruction: HloInstruction, number: int, label: str) -> int | None:
    """Returns the computation from which a nested sequence was emitted; None if it has no schedule of its own.

    A branch has a number: both branches of a predicate may be called `false_branch` or `true_branch`.
    """
    called = instruction.called_computations
    if instruction.opcode == "while":
        return called[0] if label == "body" else called[1]
    return called[number] if instruction.opcode == "conditional" and number < len(called) else None


def find_unordered(
    buffer: CommandBuffer, command: HloInstruction, buffers: BufferAssignment, positions: Positions
) -> tuple[HloInstruction, ...]:
    """Finds the commands that XLA orders neither before nor after this one."""
    at = next((n for n, other in enumerate(buffer.commands) if other is command), None)
    if at is None:
        return ()
    uses = [_find_uses(other, buffers, positions) for other in buffer.commands]
    after = _find_reached(buffer.commands, uses, range(at, len(uses)), buffers, forward=True)
    before = _find_reached(buffer.commands, uses, range(at, -1, -1), buffers, forward=False)
    return tuple([other for n, other in enumerate(buffer.commands) if n not in after and n not in before])


type _Uses = tuple[frozenset[int], frozenset[int]]
"""Numbers of the slices that a command declares as read, and as written."""


def _find_uses(command: HloInstruction, buffers: BufferAssignment, positions: Positions) -> _Uses:
    reads = frozenset(n for operand in command.operands for n in positions.locate(operand) if n is not None)
    writes = frozenset(number for _, number in buffers.definitions.get(command.id, ()))
    if command.called_computations and command.opcode != "fusion":  # what runs inside may write all that it is given
        writes |= reads | frozenset(n for n in positions.locate(command) if n is not None)
    return reads, writes


def _find_reached(
    commands: tuple[HloInstruction, ...], uses: list[_Uses], numbers: range, buffers: BufferAssignment, *, forward: bool
) -> frozenset[int]:
    """Returns the numbers that a chain of conflicts reaches from the first one, in this order."""
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
    """Adds all slices that share bytes with these."""
    return frozenset(other for number in numbers for other in buffers.overlapping[number])
