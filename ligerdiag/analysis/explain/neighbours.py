"""Describes the neighbourhood of every hidden write: the instructions that read the overwritten value, and the kinds of
other values that XLA keeps in the same bytes.

Only these other values count: those from which the overwritten value is computed, the results of its readers and of the
kernel, and the program's arguments, constants and outputs. Any other value that is in the same bytes before or
afterwards is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.def_use import Scheduled, ValueReaders, find_moves
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.writes import HiddenWrite, find_hidden_operands
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Definition, look_through
from ligerdiag.hlo.module import HloInstruction, find_user_line, strip_tags
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaves, render_shape
from ligerdiag.model.schedule_view import CallState, Fate, Neighbourhood, Origin, Reader, ReadTime

ARGUMENT = "an argument of the program"
CONSTANT = "a constant"
OUTPUT = "an output of the program"
RESULT = "a result of the kernel"
READERS_RESULT = "the result of a reader"
SOURCE = "an operand that it is computed from"


_SHOWN_RESULTS = 3
_BITCASTS = frozenset({"bitcast"})
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)


def compute_neighbourhoods(context: Context) -> tuple[Neighbourhood, ...]:
    """Returns the neighbourhood of each hidden write, in program order. It has the readers of the overwritten value, and
    the values that share its bytes. If several calls of the schedule perform a write, it has one neighbourhood for each
    call.
    """
    if not context.writes:
        return ()
    survey = _Survey(context)
    found: list[Neighbourhood] = []
    numbers: dict[tuple[str, int], int] = {}
    unplaced = {write.index for write in context.matching.unplaced}
    for write in context.writes:
        performed = [actual for actual in context.matching.actual if actual.write == write.index]
        for actual in sorted(performed, key=lambda one: survey.readers.times.get(one.call.id, 0)) or [None]:
            key = (write.kernel, write.operand)
            numbers[key] = numbers.get(key, 0) + 1
            fate = Fate.UNPLACED if write.index in unplaced else Fate.GONE
            plain = Neighbourhood(
                kernel=write.kernel,
                operand=write.operand,
                number=numbers[key],
                fate=fate,
                source=context.find_call_line(write),
            )
            found.append(plain if actual is None else survey.describe(plain, write, actual))
    return tuple(found)


def list_kernel_calls(context: Context) -> tuple[CallState, ...]:
    """Returns the kernel calls of the schedule, in its order, with the operands that each overwrites."""
    found: list[CallState] = []
    for call, effects in context.optimized_calls:
        broken = [context.writes[one.write].operand for one in context.matching.actual if one.call is call]
        hidden = tuple(find_hidden_operands(call, effects, broken))
        declared = tuple(sorted(set(call.operand_output_aliases).difference(hidden)))
        found.append(CallState(kernel=effects.kernel, hidden=hidden, declared=declared))
    return tuple(found)


@dataclass(slots=True, eq=False)
class _Survey:
    """Describes the neighbourhoods of the hidden writes of one schedule."""

    context: Context
    readers: ValueReaders = field(init=False)

    def __post_init__(self) -> None:
        self.readers = ValueReaders(self.context)

    @property
    def times(self) -> Mapping[int, int]:
        return self.readers.times

    def describe(self, plain: Neighbourhood, write: HiddenWrite, actual: ActualWrite) -> Neighbourhood:
        """Returns the neighbourhood of a call that performs the write. plain: the fields of the neighbourhood that are known
        without the schedule.
        """
        overwritten = self.readers.find_overwritten(write, actual)
        kernel = overwritten.kernel
        readers: list[tuple[int, Reader]] = []
        reading: dict[int, HloInstruction] = {}
        for read in self.readers.find_reads(overwritten):
            one = read.scheduled
            reading[one.instruction.id] = one.instruction
            time = self.readers.times[one.anchor.id]
            readers += [(time, self._make_reader(operation, one, kernel, read.origin)) for operation in read.operations]
        for one, occurrence in self.readers.find_recomputing(write, overwritten, set(reading)):
            reader = self._make_reader(occurrence.instruction, one, kernel, Origin.RECOMPUTED)
            readers.append((self.readers.times[one.anchor.id], reader))
        return replace(
            plain,
            fate=Fate.PERFORMED,
            shape=render_shape(overwritten.leaf),
            size=compute_byte_size(overwritten.leaf) or 0,
            readers=tuple([reader for _, reader in sorted(readers, key=lambda one: one[0])]),
            copied_by=self._name_moves(overwritten.moves),
            shares=self._find_sharing(actual, overwritten.definition, reading.values()),
        )

    def _find_sharing(
        self, write: ActualWrite, definition: Definition, readers: Iterable[HloInstruction]
    ) -> tuple[str, ...]:
        """Returns one phrase, such as "a constant", for each kind of other value that XLA also keeps in the overwritten
        bytes, sorted.
        """
        buffers, positions, root = self.context.buffers, self.context.positions, self.context.optimized.entry.root
        maker = self.readers.scheduled.get(definition[0])
        placed = [number for number in write.slices if number >= 0]
        hit = frozenset(other for number in placed for other in buffers.overlapping[number])
        allocations = {buffers.slices[number].allocation for number in placed}
        facts = {
            ARGUMENT: not allocations.isdisjoint(buffers.parameters),
            CONSTANT: not allocations.isdisjoint(buffers.constants),
            OUTPUT: any(positions.resolve(root, index) == definition for index in iterate_leaves(root.shape)),
            RESULT: not hit.isdisjoint(_list_defined(buffers, write.call)),
            READERS_RESULT: any(not hit.isdisjoint(_list_defined(buffers, reader)) for reader in readers),
            SOURCE: maker is not None
            and any(not hit.isdisjoint(positions.locate(one)) for one in maker.instruction.operands),
        }
        return tuple(sorted(phrase for phrase, holds in facts.items() if holds))

    def _name_moves(self, moves: Mapping[int, Definition]) -> tuple[str, ...]:
        """Returns the opcodes of the instructions that move the value to the kernel, in the order in which they run;
        the start and the done of an asynchronous instruction give one opcode.
        """
        module = self.context.optimized
        moving = [self.readers.scheduled[number].instruction for number in reversed(tuple(moves))]
        return tuple([op for one in moving if not one.opcode.endswith("-done") for op in find_moves(module, one)])

    def _make_reader(self, operation: HloInstruction, one: Scheduled, kernel: HloInstruction, origin: Origin) -> Reader:
        computations = self.context.optimized.computations
        if operation.opcode in _STARTS_COMPUTATION and operation.called_computations:
            operation = computations[operation.called_computations[0]].root
        return Reader(
            opcode=operation.opcode,
            op_name=strip_tags(operation.op_name),
            source=find_user_line(self.context.optimized, operation),
            side=self._find_side(one, kernel),
            origin=origin,
            within=self._describe_whole(one.instruction),
        )

    def _find_side(self, one: Scheduled, kernel: HloInstruction) -> ReadTime:
        now = self.readers.times[kernel.id]
        if self.readers.times[one.anchor.id] > now:
            return ReadTime.AFTER
        if one.anchor.opcode.endswith("-start"):
            done = [user for user in one.home.users[one.anchor.id] if user.opcode.endswith("-done")]
            if any(self.readers.times.get(user.id, 0) > now for user in done):
                return ReadTime.ACROSS
        return ReadTime.BEFORE

    def _describe_whole(self, instruction: HloInstruction) -> str:
        if instruction.opcode == "custom-call":
            return f"call of `{instruction.proto.custom_call_target}`"
        if instruction.opcode != "fusion":
            return ""
        fused = self.context.optimized.computations[instruction.called_computations[0]]
        if sum(one.opcode not in ("parameter", "bitcast") for one in fused.instructions) <= 1:
            return ""
        results = fused.root.operands if fused.root.opcode == "tuple" else (fused.root,)
        computed = [look_through(result, _BITCASTS) for result in results]
        names = [f"`{strip_tags(one.op_name).rpartition('/')[2] or one.opcode}`" for one in computed]
        shown = list(dict.fromkeys(names))[:_SHOWN_RESULTS]
        return f"fusion to {' and '.join(shown)}" + (" and others" if len(set(names)) > len(shown) else "")


def _list_defined(buffers: BufferAssignment, instruction: HloInstruction) -> list[int]:
    return [number for _, number in buffers.definitions.get(instruction.id, ())]
