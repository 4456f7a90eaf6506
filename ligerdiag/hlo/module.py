"""HloModule, HloComputation, HloInstruction: a typed, read-only view of XLA's protobuf, with the compile worker's tags.

All references are resolved. An instruction keeps its protobuf message for the attributes that few readers need.

Tags are unique numbers that the compile worker puts on every StableHLO operation, in program order. XLA carries them in
`op_name`: `jit(f)/mul#ld17`. The name of an operation in an inlined function is `…#ld15/add#ld85`, outer call first; the
path (15, 85) names one operation of one call. Where a pass merges two operations, XLA joins their names with a semicolon,
`add#ld85;mul#ld84`: the instruction computes the value of the first operation. A semicolon or `#` of the author is written
`%3B` and `%23`.

Metadata comes from a file, so it is read with care. Modules number their stack frames independently; what two modules share
is the *chain* behind such a number: file, function, line and column of the frame, then of its caller, and so on. XLA's call
inliner appends the call's chain to the chain of each inlined instruction, and gives the call's chain to an instruction
without one. A tag is text in an op_name: a user's scope may look like a tag, and a tag may be cut off. The compile worker
tags every operation of a program and escapes every other `#` and `;`. So a module from before the optimizations is *tagged*
under two conditions: each named instruction has one tag at the end of each joined name, and only instructions that MLIR adds
(barriers, broadcasts, calls) have no name. Otherwise its tags are ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import le
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError

from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import InvalidAlias, ShapeIndex, iterate_leaves
from ligerdiag.hlo.xla_pb2 import (
    HloComputationProto,
    HloInputOutputAliasProto,
    HloInstructionProto,
    OpMetadata,
    OriginalValueProto,
    ShapeProto,
    StackFrameIndexProto,
)
from ligerdiag.model.findings import SourceLine, SourceSpan

type TagPath = tuple[int, ...]
"""The tags of the calls that lead to an operation, outermost first, and last the operation's own tag; () when it is
untagged.
"""

_TAG = re.compile(r"#ld(\d{1,18})(?!\d)")


@lru_cache(maxsize=1 << 16)
def parse_tag_path(op_name: str) -> TagPath:
    """Returns the tags in an op_name: (15, 85) for `jit(f)/call#ld15/add#ld85`, () for a name without tags."""
    if "#ld" not in op_name:
        return ()
    return tuple([int(number) for number in _TAG.findall(op_name.partition(";")[0])])


def strip_tags(op_name: str) -> str:
    """Returns an instruction's op_name without tags, as JAX made it: `jit(f)/mul` for `jit(f)/mul#ld17`. Of several joined
    names, returns the first.
    """
    return _TAG.sub("", op_name.partition(";")[0]).replace("%3B", ";").replace("%23", "#")


_NOTHING: Mapping[ShapeIndex, "OriginalArray"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """One array of the unoptimized module: the name that the frontend gave the value, and a leaf of its shape."""

    name: str
    index: ShapeIndex = ()


def parse_original_value(data: bytes) -> Mapping[ShapeIndex, OriginalArray]:
    """Returns the array of the unoptimized module that each leaf of a result equals, by the leaf. Leaves without a known
    array are left out.

    Passes of XLA copy an original value when they replace a value by an equal one (xla/hlo/ir/hlo_original_value.h). HLO
    text shows it as `origin={{"ld17"}}`, for a tuple as `origin={({"ld20"}, {}, {"ld3"})}`. Most modules have none.

    data: the field `original_value` of an instruction, in the form of jaxlib 0.11. A message in the form of an earlier
    version gives an empty map.
    """
    if not data:
        return _NOTHING
    message = OriginalValueProto()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return _NOTHING
    return {
        tuple(one.shape_index): OriginalArray(
            one.original_array.instruction_name, tuple(one.original_array.shape_index)
        )
        for one in message.elements
        if one.original_array.instruction_name
    }


ADDED_BARRIER = "ligerdiag_barrier"
"""Name of the barriers that ligerdiag adds after operations when it translates the program as written; see
`compile.lowering.intent`.
"""


@dataclass(slots=True, eq=False)
class HloInstruction:
    """One instruction of a module. Its operands and control predecessors are instructions of the same computation.

    Each field is Final, and the dataclass is not frozen: a frozen instance takes three times as long to make, and a large
    module has 150,000 of them.
    """

    id: Final[int]
    name: Final[str]
    opcode: Final[str]
    operands: "Final[tuple[HloInstruction, ...]]"
    control_predecessors: Final[tuple[int, ...]]
    """Ids of the instructions that must run before this instruction; they may come later in the list of instructions."""
    called_computations: Final[tuple[int, ...]]
    """Ids of the computations that the instruction calls; for a `while`: (body, condition)."""
    proto: Final[HloInstructionProto]
    shape: Final[ShapeProto]
    """Shape of the result, with its layout."""
    op_name: Final[str]
    """The framework's name for the operation: JAX's name stack, with ligerdiag's tags if the compile worker put them
    there.
    """

    @property
    def kernel(self) -> tuple[str, bytes]:
        """Returns the target of a custom call and its payload, the backend config. The payload of a kernel's call contains
        the kernel.
        """
        return self.proto.custom_call_target, self.proto.backend_config

    @property
    def original_values(self) -> Mapping[ShapeIndex, OriginalArray]:
        """Returns the array of the unoptimized module that each leaf of the result equals, by the leaf. Empty if XLA did not
        record original values when it compiled the program (see `parse_original_value`).
        """
        return parse_original_value(self.proto.original_value)

    @property
    def operand_output_aliases(self) -> Mapping[int, tuple[int, ...]]:
        """Returns the valid entries of output_to_operand_aliasing. Maps the number of an operand to the index of the output
        that shares its buffer.

        An entry for a part of an operand is left out, because the operand's other parts have no alias.
        """
        entries = self.proto.output_operand_aliasing
        return {a.operand_index: tuple(a.output_shape_index) for a in entries if not a.operand_shape_index}

    @property
    def aliasing_outputs(self) -> Mapping[int, int]:
        """Returns the number of the output that aliases an operand, by the operand's number. This is `{0: 1}` if output
        1 aliases operand 0. Outputs are the leaves of the result.
        """
        leaves = list(iterate_leaves(self.shape))
        return {operand: leaves.index(leaf) for operand, leaf in self.operand_output_aliases.items()}


@dataclass(frozen=True, eq=False)
class HloComputation:
    """One function of a module, like XLA's HloComputation. It has its instructions twice: `instructions` is in dependency
    order, `sequence` in the order of the schedule.
    """

    id: int
    name: str
    instructions: tuple[HloInstruction, ...]
    root: HloInstruction
    sequence: tuple[HloInstruction, ...]
    """The instructions in the order of the schedule; empty for a computation without a schedule, such as the computation
    of a fusion.
    """
    is_fusion: bool
    proto: HloComputationProto

    @cached_property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Returns the parameter instructions, in the order of their numbers."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return tuple(sorted(found, key=lambda i: i.proto.parameter_number))

    @cached_property
    def users(self) -> Mapping[int, tuple[HloInstruction, ...]]:
        """Returns the users of each instruction by its id. These are the instructions of the computation that have it as
        an operand.
        """
        found: dict[int, list[HloInstruction]] = {i.id: [] for i in self.instructions}
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                found[operand.id].append(instruction)
        return {key: tuple(value) for key, value in found.items()}

    @cached_property
    def kept_elements(self) -> frozenset[int]:
        """Returns the numbers of the elements of a loop's state that the loop does not change. This computation must be the
        loop's body; it returns these elements unchanged in the same position.
        """
        if self.root.opcode != "tuple" or len(self.parameters) != 1:
            return frozenset()
        parameter = self.parameters[0]
        return frozenset([
            number
            for number, one in enumerate(self.root.operands)
            if one.opcode == "get-tuple-element" and one.operands[0] is parameter and one.proto.tuple_index == number
        ])  # fmt: skip

    @cached_property
    def rotated_elements(self) -> tuple[tuple[int, ...], ...]:
        """Returns which initial values each element of a loop's state has in the course of the loop. This computation
        must be the loop's body. If it exchanges the elements 0 and 1, the result is ((0, 1), (1, 0)): element 0 has its
        own initial value, later that of element 1.
        """
        if self.root.opcode != "tuple" or len(self.parameters) != 1:
            return ()
        comes_from: dict[int, int] = {}
        for number, operand in enumerate(self.root.operands):
            one = operand
            while is_added_barrier(one):
                one = one.operands[0]
            if one.opcode == "get-tuple-element" and one.operands[0] is self.parameters[0]:
                comes_from[number] = one.proto.tuple_index
        chains: list[tuple[int, ...]] = []
        for number in range(len(self.root.operands)):
            chain = [number]
            while (element := comes_from.get(chain[-1])) is not None and element not in chain:
                chain.append(element)
            chains.append(tuple(chain))
        return tuple(chains)


@dataclass(frozen=True, eq=False)
class HloModule:
    """One module: all computations of a program as XLA compiles them, with tags, aliases and metadata."""

    name: str
    entry: HloComputation
    computations: Mapping[int, HloComputation]
    """Maps the id of each computation to the computation; callees come before callers."""
    stack_frames: StackFrameIndexProto
    input_output_alias: HloInputOutputAliasProto
    """Which entry parameters and outputs of the module share a buffer (donation)."""
    parameter_spaces: tuple[int, ...] = ()
    """For each entry parameter that is an array, the memory space in which the caller keeps the array: 0 for the device's
    memory, `HOST_SPACE` for the host's. Empty if the module does not say.
    """
    output_spaces: tuple[int, ...] = ()
    """The memory space of each leaf of the module's result."""
    donors: tuple[int, ...] = ()
    """Numbers of the donated entry parameters that have no output assigned yet: where arrays are split over devices,
    XLA pairs donated parameters with outputs itself.
    """
    replica_count: int = 1
    """Number of replicas of the program. Each replica may in turn be split into partitions. 1 if the module does not say."""
    frontend_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attributes that the framework (JAX) passes to XLA with the module."""
    tags: Mapping[int, TagPath] = field(default_factory=dict[int, TagPath])
    """Maps the id of an instruction to the tag path of the author's operation that it computes, where known: read
    from `op_name`, or inferred later (see `analysis.provenance`).
    """
    invalid_aliases: list[InvalidAlias] = field(default_factory=list[InvalidAlias])
    """Aliases that instructions declare and that are invalid; they are removed from the messages of these instructions.
    """
    number: int = 0
    """The module's number in the process that compiled it; 0 where the file does not say."""
    _orders: dict[int, tuple[HloInstruction, ...]] = field(
        init=False, default_factory=dict[int, tuple[HloInstruction, ...]]
    )

    @property
    def is_scheduled(self) -> bool:
        return bool(self.entry.sequence)

    @cached_property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """Returns the instructions of all computations, including fused ones; callees before callers."""
        return tuple([one for computation in self.computations.values() for one in computation.instructions])

    @property
    def instruction_count(self) -> int:
        return sum(len(c.instructions) for c in self.computations.values())

    @cached_property
    def homes(self) -> Mapping[int, HloComputation]:
        """Returns the computation that contains each instruction, by the instruction's id."""
        return {i.id: computation for computation in self.computations.values() for i in computation.instructions}

    @cached_property
    def callers(self) -> Mapping[int, tuple[HloInstruction, ...]]:
        """Returns the instructions that call each computation, by the computation's id. Each instruction appears once."""
        found: dict[int, list[HloInstruction]] = {}
        for instruction in self.instructions:
            for callee in dict.fromkeys(instruction.called_computations):
                found.setdefault(callee, []).append(instruction)
        return {callee: tuple(callers) for callee, callers in found.items()}

    def find_tag_path(self, instruction: HloInstruction) -> TagPath:
        """Returns the tag path of the author's operation that an instruction computes. It has the tags of the calls that
        lead to the operation, outermost first, then its own tag. Returns () if unknown.
        """
        return self.tags.get(instruction.id, ())

    def sort_in_program_order(self, computation: HloComputation) -> tuple[HloInstruction, ...]:
        """Returns the instructions of a computation in program order: sorted by their tags, each after its operands.

        An instruction without a tag comes as early as its operands allow. A call without a tag comes after the operations
        that were written before it (`_place_calls`).
        """
        found = self._orders.get(computation.id)
        if found is None:
            found = self._orders[computation.id] = self._sort(computation)
        return found

    def _sort(self, computation: HloComputation) -> tuple[HloInstruction, ...]:
        tags = self.tags
        keys: dict[int, int] = {}
        calls = self._place_calls(computation)
        for instruction in computation.instructions:
            path = tags.get(instruction.id)
            own = path[-1] if path else calls.get(instruction.id, 0)
            operands = instruction.operands
            keys[instruction.id] = max([own, *[keys[o.id] for o in operands]]) if operands else own
        listed = list(keys.values())
        if all(map(le, listed, listed[1:])):
            return computation.instructions
        return tuple(sorted(computation.instructions, key=lambda i: keys[i.id]))

    def _place_calls(self, computation: HloComputation) -> Mapping[int, int]:
        """Maps the id of each call without a tag to the highest tag before it, which gives the call its place in
        program order.

        Before JAX 0.7 a call of a function had no name and so no tag. Its place matters, since the called function
        reads what earlier calls have overwritten.
        """
        if not any(one.opcode == "call" and one.id not in self.tags for one in computation.instructions):
            return {}
        found: dict[int, int] = {}
        highest = 0
        for one in sorted(computation.instructions, key=lambda one: one.id):
            if path := self.tags.get(one.id):
                highest = max(highest, path[-1])
            elif one.opcode == "call":
                found[one.id] = highest
        return found

    def iterate_custom_calls(self) -> Iterator[tuple[HloComputation, HloInstruction]]:
        """Yields every custom call of the module, as (computation, custom call). Called computations come before their
        callers.
        """
        return iter(self._custom_calls)

    @cached_property
    def _custom_calls(self) -> tuple[tuple[HloComputation, HloInstruction], ...]:
        computations = self.computations.values()
        return tuple([(home, one) for home in computations for one in home.instructions if one.opcode == "custom-call"])


MAX_FRAMES = 64


def iterate_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Yields the stack frames of an instruction's source location, the innermost first. Yields none if it has no
    location.
    """
    return iterate_frames_of(module.stack_frames, instruction.proto.metadata)


def iterate_frames_of(frames: StackFrameIndexProto, metadata: OpMetadata) -> Iterator[SourceLine]:
    """Does the same for the metadata of an instruction. frames: the stack frames of its module."""
    number = metadata.stack_frame_id
    if not number and metadata.source_file:
        yield SourceLine(file=metadata.source_file, line=metadata.source_line)
    for _ in range(MAX_FRAMES):
        if not 0 < number <= len(frames.stack_frames):
            return
        frame = frames.stack_frames[number - 1]
        if not 0 < frame.file_location_id <= len(frames.file_locations):
            return
        location = frames.file_locations[frame.file_location_id - 1]
        yield SourceLine(
            file=_get_name(frames.file_names, location.file_name_id),
            line=location.line,
            function=_get_name(frames.function_names, location.function_name_id),
            span=_make_span(location),
        )
        if frame.parent_frame_id in (number, 0):
            return
        number = frame.parent_frame_id


def _make_span(location: StackFrameIndexProto.FileLocation) -> SourceSpan | None:
    """Returns the expression of a location; None if an older XLA or JAX has given its line alone."""
    column, end = location.column, (location.end_line, location.end_column)
    if column < 0 or end <= (location.line, column):
        return None
    return SourceSpan(column=column, end_line=location.end_line, end_column=location.end_column)


def iterate_user_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Yields the stack frames of an instruction that are outside of installed packages, the innermost first.

    An instruction without such frames has those of the `call` that runs its computation, if only one `call` does. For some
    primitives, JAX makes a function of its own, which it traces without the user's frames.
    """
    for _ in range(MAX_FRAMES):
        frames = [frame for frame in iterate_frames(module, instruction) if not frame.is_installed]
        yield from frames
        home = module.homes.get(instruction.id)
        callers = () if frames or home is None else module.callers.get(home.id, ())
        if len(callers) != 1 or callers[0].opcode != "call":
            return
        instruction = callers[0]


def find_user_line(module: HloModule, instruction: HloInstruction) -> SourceLine | None:
    """Returns the innermost source line of an instruction outside of installed packages; None if it has no such line."""
    return next(iterate_user_frames(module, instruction), None)


def find_reading_line(module: HloModule, instructions: Sequence[HloInstruction]) -> SourceLine | None:
    """Returns the user's source line at which a value is read: that of the first of `instructions` with a line. Returns None
    if none has a line.

    instructions: the reader of the value and the instructions around it, the innermost first. A fusion without a line has
    the line of an operation in it.

    The line of a loop around the instructions counts only if no instruction has a different line. The slices of a `scan`
    have the line of the `scan`, and XLA often names a fusion after such a slice.
    """
    loops, found = _find_loop_lines(module, instructions), list[SourceLine]()
    for instruction in instructions:
        inner = module.computations[instruction.called_computations[0]].instructions if _is_fusion(instruction) else ()
        for one in (instruction, *inner):
            line = find_user_line(module, one)
            if line is not None and (line.file, line.line) not in loops:
                return line
            found += [] if line is None else [line]
    return next(iter(found), None)


def _find_loop_lines(module: HloModule, instructions: Sequence[HloInstruction]) -> set[tuple[str, int]]:
    """Returns the places, as (file, line), of the loops in whose bodies the instructions are."""
    found = set[tuple[str, int]]()
    for instruction in instructions:
        callers: Sequence[HloInstruction] = module.callers.get(module.homes[instruction.id].id, ())
        while callers and all(map(_is_fusion, callers)):
            callers = [outer for one in callers for outer in module.callers.get(module.homes[one.id].id, ())]
        lines = (find_user_line(module, one) for one in callers)
        found |= {(line.file, line.line) for line in lines if line is not None}
    return found


def _is_fusion(instruction: HloInstruction) -> bool:
    return instruction.opcode == "fusion"


type Chain = int
"""Number of a chain of source locations; 0 is the empty chain. The same number means the same chain, in every module.
"""

_MAX_FRAMES = 1024


@dataclass(slots=True, eq=False)
class FrameNumbers:
    """Gives numbers to chains of stack frames, so that source locations of different modules can be compared. Equal chains
    get equal numbers.
    """

    _links: dict[tuple[object, Chain], Chain] = field(default_factory=dict[tuple[object, Chain], Chain])
    _known: dict[tuple[int, int, Chain], Chain] = field(default_factory=dict[tuple[int, int, Chain], Chain])

    def number(self, module: HloModule, instruction: HloInstruction, behind: Chain = 0) -> Chain:
        """Returns the number of an instruction's chain of stack frames, the innermost first. behind: number of a chain
        that is appended to it, the callers of the outermost frame.
        """
        metadata = instruction.proto.metadata
        if metadata.stack_frame_id:
            return self._number_frame(module, metadata.stack_frame_id, behind)
        if metadata.source_file:
            return self._link((metadata.source_file, "", metadata.source_line, 0), behind)
        return behind

    def _number_frame(self, module: HloModule, frame: int, behind: Chain) -> Chain:
        known = self._known.get((id(module), frame, behind))
        if known is not None:
            return known
        table, chain, current = module.stack_frames, list[object](), frame
        while 0 < current <= len(table.stack_frames) and len(chain) < _MAX_FRAMES:
            entry = table.stack_frames[current - 1]
            chain.append(_describe(module, entry.file_location_id))
            current = entry.parent_frame_id
        number = behind
        for location in reversed(chain):
            number = self._link(location, number)
        self._known[id(module), frame, behind] = number
        return number

    def _link(self, location: object, outer: Chain) -> Chain:
        return self._links.setdefault((location, outer), len(self._links) + 1)


def _describe(module: HloModule, location_id: int) -> object:
    table = module.stack_frames
    if not 0 < location_id <= len(table.file_locations):
        return ()
    location = table.file_locations[location_id - 1]
    file = _get_name(table.file_names, location.file_name_id)
    return file, _get_name(table.function_names, location.function_name_id), location.line, location.column


def _get_name(names: Sequence[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""


_TAGGED = re.compile(r"(?:[^#;]*#ld\d{1,18};)*[^#;]*#ld\d{1,18}")
_UNTAGGED = having(Trait.NO_OPERATION)
_UNNAMED = having(Trait.UNNAMED)


def is_added_barrier(instruction: HloInstruction) -> bool:
    """Returns whether the instruction is a barrier that ligerdiag added after an operation, with the operation's tag. Such a
    barrier keeps XLA from folding the operation into its operand when a traced program is translated to HLO.
    """
    return instruction.opcode == "opt-barrier" and strip_tags(instruction.op_name) in ("", ADDED_BARRIER)


def is_tagged(program: HloModule) -> bool:
    """Returns whether every operation of the author has a tag in its name. program: a module from before the optimizations.

    A reshape without a name and without users needs no tag: XLA makes such a reshape for an output with an Explicit
    sharding.
    """
    used = {operand.id for one in program.instructions for operand in one.operands}
    roots = {computation.root.id for computation in program.computations.values()}
    return bool(program.tags) and all(
        _TAGGED.fullmatch(one.op_name) if one.op_name else one.opcode in _UNNAMED
        for one in program.instructions
        if one.opcode not in _UNTAGGED and (one.op_name or one.opcode != "reshape" or one.id in used or one.id in roots)
    )
