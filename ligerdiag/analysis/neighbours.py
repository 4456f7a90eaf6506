"""The neighbourhood of every hidden write of one schedule.

(1) A reader of the value is a scheduled instruction with an operand whose definition is that of the kernel's operand. Other
    values that XLA keeps in the same bytes at other times are none of its business.
(2) Where the kernel's operand was only moved or cast from another value (a gather, a transpose, a convert), the readers of
    that value are readers of the source.
(3) An operation that reads the value in the program, and that the schedule runs without reading either, computes it anew.
(4) What holds the kernel (a fusion, a loop, a call) is not a reader; nor is what only waits for an asynchronous operation.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.carriers import is_same_operation
from ligerdiag.analysis.context import Context
from ligerdiag.analysis.definitions import Definition, Definitions, find_operand
from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.origins import find_origins
from ligerdiag.analysis.reading_operations import find_moves, find_reading
from ligerdiag.analysis.sharing import find_sharing
from ligerdiag.analysis.writes import HiddenWrite, tag_path_of
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import ShapeIndex, compute_byte_size, iterate_leaf_shapes, iterate_leaves, render_shape
from ligerdiag.hlo.source import find_user_line
from ligerdiag.neighbourhood import Fate, Neighbourhood, Origin, Reader, Side

_NO_READERS = frozenset({
    "bitcast", "get-tuple-element", "opt-barrier", "tuple", "parameter", "while", "conditional", "call", "after-all",
})  # fmt: skip
_SHOWN_RESULTS = 3


def compute_neighbourhoods(context: Context) -> tuple[Neighbourhood, ...]:
    """One for each hidden write, in program order; a write that several calls perform has one for each."""
    if not context.writes:
        return ()
    survey = _Survey(context)
    found: list[Neighbourhood] = []
    numbers: dict[tuple[str, int], int] = {}
    unplaced = {write.index for write in context.matching.unplaced}
    for write in context.writes:
        performed = [actual for actual in context.matching.actual if actual.write == write.index]
        for actual in sorted(performed, key=lambda one: survey.times.get(one.call.id, 0)) or [None]:
            key = (write.kernel, write.operand)
            numbers[key] = numbers.get(key, 0) + 1
            fate = Fate.UNPLACED if write.index in unplaced else Fate.GONE
            plain = Neighbourhood(
                kernel=write.kernel,
                operand=write.operand,
                number=numbers[key],
                fate=fate,
                source=find_user_line(context.program, write.call),
            )
            found.append(plain if actual is None else survey.describe(plain, write, actual))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Scheduled:
    """An instruction that may read, and where it runs."""

    instruction: HloInstruction
    home: HloComputation
    anchor: HloInstruction
    """The instruction of `home` at whose place it runs: itself, or the start of the asynchronous computation around it."""


@dataclass(slots=True, eq=False)
class _Survey:
    """Looks around the writes of one schedule."""

    context: Context
    times: Mapping[int, int] = field(init=False)
    definitions: Definitions = field(init=False)
    scheduled: Mapping[int, _Scheduled] = field(init=False)
    """By instruction id, in the order of the schedule."""

    def __post_init__(self) -> None:
        self.times = self.context.logical_times
        self.definitions = Definitions(self.context.optimized, self.context.buffers)
        found = sorted(self._list_scheduled(), key=lambda one: (self.times[one.anchor.id], one.instruction.id))
        self.scheduled = {one.instruction.id: one for one in found}

    def _list_scheduled(self) -> Iterator[_Scheduled]:
        computations = self.context.optimized.computations
        starts = {
            callee: (computation, one)
            for computation in computations.values()
            for one in computation.sequence
            if one.opcode == "async-start"
            for callee in one.called_computations
            if computations[callee].sequence
        }
        replaced = {start.id for _, start in starts.values()}
        for computation in computations.values():
            home, start = starts.get(computation.id, (computation, None))
            for one in computation.sequence:
                anchor = start or one
                if anchor.id in self.times and one.opcode not in _NO_READERS and one.id not in replaced:
                    yield _Scheduled(one, home, anchor)

    def describe(self, plain: Neighbourhood, write: HiddenWrite, actual: ActualWrite) -> Neighbourhood:
        """What stands around the call that performs the write."""
        value, index = find_operand(actual.frames, write.operand)
        leaf = dict(iterate_leaf_shapes(value.shape))[index]
        definition = self.definitions.resolve(value, index)
        moves = self._find_moves(definition)
        sources = frozenset(moves.values())
        kernel = next(f.instruction for f in reversed(actual.frames) if f.instruction.id in self.times)
        around = {frame.instruction.id for frame in actual.frames}
        readers: list[tuple[int, Reader]] = []
        reading: dict[int, HloInstruction] = {}
        for one in self.scheduled.values():
            number = one.instruction.id
            if number in around or number in moves or one.instruction.opcode.endswith(("-done", "-update")):
                continue
            for operand, origin, at in self._find_reads(one.instruction, definition, sources):
                reading[number] = one.instruction
                found = find_reading(self.context.optimized, one.instruction, operand, at)
                time = self.times[one.anchor.id]
                readers += [(time, self._make_reader(operation, one, kernel, origin)) for operation in found]
        readers += self._find_recomputing(write, reading.keys() | around | moves.keys(), kernel)
        maker = self.scheduled.get(definition[0])
        return replace(
            plain,
            fate=Fate.PERFORMED,
            shape=render_shape(leaf),
            size=compute_byte_size(leaf) or 0,
            readers=tuple([reader for _, reader in sorted(readers, key=lambda one: one[0])]),
            copied_by=self._name_moves(moves),
            shares=find_sharing(
                self.context.optimized,
                self.context.buffers,
                self.definitions,
                actual,
                definition=definition,
                maker=maker.instruction if maker is not None else None,
                readers=reading.values(),
            ),
        )

    def _find_reads(
        self, instruction: HloInstruction, definition: Definition, sources: frozenset[Definition]
    ) -> Iterator[tuple[int, Origin, ShapeIndex]]:
        """(operand_number, what is read, leaf of the operand), each value once."""
        seen: set[Definition] = set()
        for operand, value in enumerate(instruction.operands):
            for at in iterate_leaves(value.shape):
                found = self.definitions.resolve(value, at)
                if found not in seen and (found == definition or found in sources):
                    seen.add(found)
                    yield operand, Origin.VALUE if found == definition else Origin.SOURCE, at

    def _find_moves(self, definition: Definition) -> dict[int, Definition]:
        """Ids of the instructions that only move the value on its way to the kernel, the last first, and what they move."""
        found: dict[int, Definition] = {}
        while (one := self.scheduled.get(definition[0])) is not None and one.instruction.id not in found:
            moving = one.instruction
            if not find_moves(self.context.optimized, moving) or not moving.operands:
                break
            if moving.opcode.endswith("-done"):
                found[moving.id] = definition
                moving = moving.operands[0]
            leaves = list(iterate_leaves(moving.operands[0].shape))
            if len(leaves) != 1:
                break
            definition = found[moving.id] = self.definitions.resolve(moving.operands[0], leaves[0])
        return found

    def _name_moves(self, moves: Mapping[int, Definition]) -> tuple[str, ...]:
        """Opcodes in the order in which they run; the two halves of an asynchronous one count once."""
        module = self.context.optimized
        moving = [self.scheduled[number].instruction for number in reversed(tuple(moves))]
        return tuple([op for one in moving if not one.opcode.endswith("-done") for op in find_moves(module, one)])

    def _find_recomputing(
        self, write: HiddenWrite, known: set[int], kernel: HloInstruction
    ) -> Iterator[tuple[int, Reader]]:
        """Readers of (3), with their logical times."""
        tagged, sightings = self.context.intended.tagged, self.context.actual.sightings
        if not tagged:
            return
        origins = {tag_path_of(frames) for frames in find_origins(self.context.program, write)}
        for path, operation in tagged.items():
            if origins.isdisjoint(operation.operands):
                continue
            for sighting in sightings.get(path, ()):
                one = self.scheduled.get(sighting.scheduled.id)
                is_same = is_same_operation(operation.opcode, sighting.instruction)
                if one is not None and one.instruction.id not in known and is_same:
                    reader = self._make_reader(sighting.instruction, one, kernel, Origin.NOWHERE)
                    yield self.times[one.anchor.id], reader

    def _make_reader(
        self, operation: HloInstruction, one: _Scheduled, kernel: HloInstruction, origin: Origin
    ) -> Reader:
        computations = self.context.optimized.computations
        if operation.opcode == "async-start" and operation.called_computations:
            operation = computations[operation.called_computations[0]].root
        return Reader(
            opcode=operation.opcode,
            op_name=strip_tags(operation.op_name),
            source=find_user_line(self.context.optimized, operation),
            side=self._find_side(one, kernel),
            origin=origin,
            within=self._describe_whole(operation, one.instruction),
        )

    def _find_side(self, one: _Scheduled, kernel: HloInstruction) -> Side:
        now = self.times[kernel.id]
        if self.times[one.anchor.id] > now:
            return Side.AFTER
        if one.anchor.opcode.endswith("-start"):
            done = [user for user in one.home.users[one.anchor.id] if user.opcode.endswith("-done")]
            if any(self.times.get(user.id, 0) > now for user in done):
                return Side.ACROSS
        return Side.BEFORE

    def _describe_whole(self, operation: HloInstruction, instruction: HloInstruction) -> str:
        if instruction.opcode == "custom-call":
            return f"call of `{instruction.proto.custom_call_target}`"
        if instruction.opcode != "fusion":
            return ""
        fused = self.context.optimized.computations[instruction.called_computations[0]]
        if sum(one.opcode not in ("parameter", "bitcast") for one in fused.instructions) <= 1:
            return ""
        results = fused.root.operands if fused.root.opcode == "tuple" else (fused.root,)
        names = [f"`{_name_primitive(_skip_names(result))}`" for result in results]
        shown = list(dict.fromkeys(names))[:_SHOWN_RESULTS]
        return f"fusion to {' and '.join(shown)}" + (" and others" if len(set(names)) > len(shown) else "")


def strip_tags(op_name: str) -> str:
    """JAX's name stack of the operation whose value it is, without our tags."""
    return re.sub(r"#ld\d+", "", op_name.partition(";")[0])


def _skip_names(value: HloInstruction) -> HloInstruction:
    while value.opcode == "bitcast":
        value = value.operands[0]
    return value


def _name_primitive(instruction: HloInstruction) -> str:
    return strip_tags(instruction.op_name).rpartition("/")[2] or instruction.opcode
