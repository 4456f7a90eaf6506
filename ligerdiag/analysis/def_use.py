"""Finds the instructions that read a value that a kernel overwrites, or the value from which the overwritten value was
made.

A reader of the value is a scheduled instruction with an operand of the same definition as the kernel's operand. An
instruction that reads another value, which is in the same bytes at another time, does not count. If the kernel's
operand was only moved or cast from another value (by a gather, a transpose, a convert), that other value is the
*source*, and its readers are found too. If an operation of the program reads the overwritten value, and the schedule
runs this operation without reading the value or its source, the schedule *recomputes* the value there. An instruction
that contains the kernel (a fusion, a loop, a call) is not a reader, nor is one that only waits for an asynchronous
operation.

The *reading operations* of a reader are the instruction itself, or, in a fusion, the first operations that compute
something from the fusion's parameter, after operations that only move or cast it. If the fusion returns the moved
value, the move is a reading operation too: the fusion makes a copy.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import ActualWrite, Occurrence
from ligerdiag.analysis.reaching_definitions import find_origins, find_scheduled_operand
from ligerdiag.analysis.writes import HiddenWrite, tag_path_of
from ligerdiag.hlo.dataflow import Definition, Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes, iterate_leaves
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.model.schedule_view import Origin

NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE)
"""Opcodes of instructions whose result is another name for their operand's bytes."""
MOVES = having(Trait.MOVES, Trait.CASTS)
"""Opcodes of instructions that move or cast their operand and compute nothing else."""


def find_reading(
    module: HloModule, reader: HloInstruction, operand: int, index: ShapeIndex
) -> tuple[HloInstruction, ...]:
    """Returns the operations that read one leaf of a reader's operand, in their order. If the reader is a fusion, these are
    operations inside it; otherwise the reader itself. operand: number of the operand. index: the leaf of the operand.
    """
    if reader.opcode != "fusion":
        return (reader,)
    fused = module.computations[reader.called_computations[0]]
    found = {leaf.id: leaf for leaf in _follow(fused, fused.parameters[operand], index, set())}
    return tuple([one for one in fused.instructions if one.id in found]) or (reader,)


def _follow(
    computation: HloComputation, value: HloInstruction, index: ShapeIndex, seen: set[int]
) -> Iterator[HloInstruction]:
    """Yields the operations inside a fusion that read this leaf of the value, looking through operations that only
    rename, move or cast it. seen: ids of the instructions already visited.
    """
    for user in computation.users[value.id]:
        if user.opcode == "get-tuple-element" and index:
            if user.proto.tuple_index == index[0]:
                yield from _follow(computation, user, index[1:], seen)
            continue
        if user.opcode == "tuple" or user.id in seen:
            continue  # the fusion's own results are not read here
        seen.add(user.id)
        if user.opcode not in NAMES and user.opcode not in MOVES:
            yield user
            continue
        if user.opcode in MOVES and _is_result(computation, user):
            yield user
        yield from _follow(computation, user, index, seen)


def _is_result(computation: HloComputation, value: HloInstruction) -> bool:
    """Returns whether the fusion returns this value, directly or through operations that only rename it, such as
    bitcasts and tuples.
    """
    return value is computation.root or any(
        user.opcode in NAMES and _is_result(computation, user) for user in computation.users[value.id]
    )


def find_moves(module: HloModule, value: HloInstruction) -> tuple[str, ...]:
    """Returns the opcodes by which an instruction moves or casts its operand, `('transpose', 'convert')` for a fusion of
    these two. Returns () if the instruction computes something.
    """
    opcode = strip_phase(value.opcode)
    if opcode in MOVES:
        return (opcode,)
    if value.opcode != "fusion" or len(value.operands) != 1:
        return ()
    fused = module.computations[value.called_computations[0]].instructions
    opcodes = [one.opcode for one in fused if one.opcode != "parameter" and one.opcode not in NAMES]
    return tuple(opcodes) if opcodes and all(one in MOVES for one in opcodes) else ()


NO_READERS = having(Trait.LAUNCHES_NOTHING, Trait.CONTROL_FLOW) - having(Trait.FROM_NOTHING)
"""Opcodes of instructions that read nothing themselves and define nothing that a kernel could overwrite. Constants are
not among them, because they define something.
"""
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """An instruction that may read a value, and the place where the schedule runs it."""

    instruction: HloInstruction
    home: HloComputation
    anchor: HloInstruction
    """The instruction in the schedule that runs `instruction`: `instruction` itself, or, if it is inside an
    asynchronous computation, the start of this computation. `home` is the computation that contains `instruction`.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overwritten:
    """A value that a kernel overwrites, and the instructions that move it to the kernel in the schedule."""

    kernel: HloInstruction
    """The scheduled instruction that runs the kernel: its call, or the fusion around it."""
    around: frozenset[int]
    """Ids of the kernel's call and of the instructions that contain it."""
    definition: Definition
    leaf: ShapeProto
    moves: Mapping[int, Definition]
    """Maps the id of each instruction that only moves the value on its way to the kernel, to the definition of the
    value that it moves. The instruction nearest to the kernel comes first.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueRead:
    """One read of an overwritten value by a scheduled instruction. The instruction reads the value itself, or the source
    from which the value was moved.
    """

    scheduled: Scheduled
    operand: int
    index: ShapeIndex
    """The leaf of the operand that is read."""
    origin: Origin
    operations: tuple[HloInstruction, ...]
    """The operations that read: the instruction itself, or operations inside it if it is a fusion."""


type _Use = tuple[int, int, Scheduled, ShapeIndex]
"""(Position of the reader in the schedule, number of the operand, the reader, leaf of the operand that is read)."""


@dataclass(slots=True, eq=False)
class ValueReaders:
    """Finds the readers of overwritten values in one schedule."""

    context: EvaluatedPair
    times: Mapping[int, int] = field(init=False)
    positions: Positions = field(init=False)
    scheduled: Mapping[int, Scheduled] = field(init=False)
    """Every scheduled instruction that may read a value, by its id, in the order of the schedule."""
    _uses: Mapping[Definition, list[_Use]] | None = None
    _program_uses: Mapping[TagPath, list[tuple[int, TagPath]]] | None = None

    def __post_init__(self) -> None:
        self.times = self.context.logical_times
        self.positions = self.context.positions
        found = sorted(self._list_scheduled(), key=lambda one: (self.times[one.anchor.id], one.instruction.id))
        self.scheduled = {one.instruction.id: one for one in found}

    def _list_scheduled(self) -> Iterator[Scheduled]:
        computations = self.context.optimized.computations
        starts = {
            callee: (computation, one)
            for computation in computations.values()
            for one in computation.sequence
            if one.opcode in _STARTS_COMPUTATION
            for callee in one.called_computations
            if computations[callee].sequence
        }
        replaced = {start.id for _, start in starts.values()}
        for computation in computations.values():
            home, start = starts.get(computation.id, (computation, None))
            for one in computation.sequence:
                anchor = start or one
                if anchor.id in self.times and one.opcode not in NO_READERS and one.id not in replaced:
                    yield Scheduled(one, home, anchor)

    def find_overwritten(self, write: HiddenWrite, actual: ActualWrite) -> Overwritten:
        """Returns the value that a scheduled kernel call overwrites. write: the hidden write. actual: the write as the
        schedule performs it.
        """
        located = find_scheduled_operand(self.context.optimized, actual.frames, write.operand)
        value, index = located[0] if located is not None else (actual.call.operands[write.operand], ())
        definition = self.positions.resolve(value, index)
        return Overwritten(
            kernel=next(f.instruction for f in reversed(actual.frames) if f.instruction.id in self.times),
            around=frozenset(frame.instruction.id for frame in actual.frames),
            definition=definition,
            leaf=dict(iterate_leaf_shapes(value.shape))[index],
            moves=self._find_moves(definition),
        )

    def find_reads(self, overwritten: Overwritten) -> Iterator[ValueRead]:
        """Yields the instructions that read an overwritten value or its source, in the order of the schedule."""
        skipped = overwritten.around | overwritten.moves.keys()
        found = [
            (at, Origin.VALUE if definition == overwritten.definition else Origin.SOURCE)
            for definition in dict.fromkeys((overwritten.definition, *overwritten.moves.values()))
            for at in self._find_uses().get(definition, ())
        ]
        for (_, operand, one, index), origin in sorted(found, key=lambda read: read[0][:2]):
            if one.instruction.id not in skipped:
                yield ValueRead(
                    scheduled=one,
                    operand=operand,
                    index=index,
                    origin=origin,
                    operations=find_reading(self.context.optimized, one.instruction, operand, index),
                )

    def find_recomputing(
        self, write: HiddenWrite, overwritten: Overwritten, known: set[int]
    ) -> Iterator[tuple[Scheduled, Occurrence]]:
        """Yields (scheduled instruction, operation in it) for each operation that recomputes the overwritten value. Such an
        operation reads the value in the program, but runs in the schedule without reading the value.

        known: ids of the readers that `find_reads` has found.
        """
        tagged, occurrences = self.context.intended.tagged, self.context.actual.occurrences
        if not tagged:
            return
        known = known | overwritten.around | overwritten.moves.keys()
        origins = {tag_path_of(write.module, frames) for frames in find_origins(write)}
        for _, path in sorted({use for origin in origins for use in self._find_program_uses().get(origin, ())}):
            operation = tagged[path]
            for occurrence in occurrences.get(path, ()):
                one = self.scheduled.get(occurrence.scheduled.id)
                is_same = is_same_operation(operation.opcode, occurrence.instruction)
                if one is not None and one.instruction.id not in known and is_same:
                    yield one, occurrence

    def _find_uses(self) -> Mapping[Definition, list[_Use]]:
        """Maps each definition to the instructions that read it, each instruction once for each definition."""
        if self._uses is None:
            found: defaultdict[Definition, list[_Use]] = defaultdict(list)
            for position, one in enumerate(self.scheduled.values()):
                if one.instruction.opcode.endswith(("-done", "-update")):
                    continue
                seen: set[Definition] = set()
                for operand, value in enumerate(one.instruction.operands):
                    for index in iterate_leaves(value.shape):
                        definition = self.positions.resolve(value, index)
                        if definition not in seen:
                            seen.add(definition)
                            found[definition].append((position, operand, one, index))
            self._uses = found
        return self._uses

    def _find_program_uses(self) -> Mapping[TagPath, list[tuple[int, TagPath]]]:
        """Maps the tag path of each operation of the program to the operations that read its result, as (position in
        program order, tag path).
        """
        if self._program_uses is None:
            found: defaultdict[TagPath, list[tuple[int, TagPath]]] = defaultdict(list)
            for position, (path, operation) in enumerate(self.context.intended.tagged.items()):
                for operand in operation.operands:
                    found[operand].append((position, path))
            self._program_uses = found
        return self._program_uses

    def _find_moves(self, definition: Definition) -> dict[int, Definition]:
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
            definition = found[moving.id] = self.positions.resolve(moving.operands[0], leaves[0])
        return found
