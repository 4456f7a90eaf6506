"""Holds the memory of the scheduled program: the current dependence set of each slice of XLA's buffer assignment.

A *slice* is the bytes that the buffer assignment gives to one array; it has a number. A dependence set says on which
hidden writes a value depends (see `labels`). An instruction that defines a value replaces the set of the value's slice,
and every later reader of the slice sees that set. A hidden write changes every slice that shares bytes with the
overwritten operand. These slices are then *raw*: the kernel changed their bytes without XLA knowing, so a later reader
gets the right version only if something orders it with the kernel. If a kernel gets a known region of an array, only
the pieces in that region change (see `pieces`). A read that nothing orders with a hidden write to its bytes is lucky,
and gets a mark, an extra bit in the set (see `unordered_reads`). A value without a place in the buffer assignment has a
negative slice number of its own.

An evaluation of the schedule returns `Actual`: the dependence sets of the outputs, and an `Occurrence` of each
instruction that carries the tag of a program operation (the number by which ligerdiag finds the operation again after
the compile). A *tag path* is that tag, after the tags of the calls that lead to the operation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ligerdiag.analysis.evaluation.labels import Confluence, Labels, LabelSpace, unite
from ligerdiag.analysis.evaluation.pieces import ArrayRegion, Pieces, PiecewiseLabels, follow_pieces
from ligerdiag.analysis.writes import Frames
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath

type OperandPlace = tuple[int, int]
"""The place of one array of an operand: (number of the operand, slice number)."""


@dataclass(slots=True, eq=False)
class Places:
    """Finds the memory slices that hold the values of one module. A slice is the bytes that the buffer assignment gives to
    one array. A value without bytes has a negative slice number of its own.
    """

    buffers: BufferAssignment
    positions: Positions
    _leaves: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _operands: dict[int, tuple[OperandPlace, ...]] = field(default_factory=dict[int, tuple[OperandPlace, ...]])
    _read: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _defined: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _placeless: int = 0

    def locate(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Returns the slice number of each leaf of the instruction's shape, in order."""
        found = self._leaves.get(instruction.id)
        if found is None:
            places = self.positions.locate(instruction)
            found = tuple([self._number() if place is None else place for place in places])
            self._leaves[instruction.id] = found
        return found

    def _number(self) -> int:
        self._placeless -= 1
        return self._placeless

    def list_operands(self, instruction: HloInstruction) -> tuple[OperandPlace, ...]:
        found = self._operands.get(instruction.id)
        if found is None:
            operands = enumerate(instruction.operands)
            found = tuple([(number, place) for number, operand in operands for place in self.locate(operand)])
            self._operands[instruction.id] = found
        return found

    def list_read(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Returns the number of the memory slice of every array in every operand of the instruction."""
        found = self._read.get(instruction.id)
        if found is None:
            found = self._read[instruction.id] = tuple([place for _, place in self.list_operands(instruction)])
        return found

    def list_defined(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Returns the numbers of the memory slices into which the instruction writes its own result. Returns () if it
        writes nothing, as a tuple, which only names existing bytes.
        """
        found = self._defined.get(instruction.id)
        if found is None:
            defined = self.buffers.definitions.get(instruction.id)
            if defined is not None:
                found = tuple([number for _, number in defined])
            else:
                found = tuple([number for number in self.locate(instruction) if number < 0])
            self._defined[instruction.id] = found
        return found


type Read = tuple[int, int, Labels]
"""One array that a scheduled instruction reads: (number of the operand, slice number, dependence set of the slice when it
is read).
"""


@dataclass(frozen=True, slots=True)
class LuckyRead:
    """A read that sees or misses a hidden write only because of the order of this schedule. It is the key of a mark, an
    extra bit in the dependence set of every value computed from the read.
    """

    write: int
    """Index of the hidden write."""
    reader: int
    """Id of the scheduled instruction that reads."""
    after: bool
    """True if the instruction reads after the write, False if before it."""
    slice_number: int


@dataclass(frozen=True, slots=True)
class UnorderedRead:
    """A read of bytes that a hidden write overwrites. No dependence forces the read to come before or after the write."""

    operand: int
    """Number of the operand through which the instruction reads."""
    lucky: LuckyRead
    region: ArrayRegion | None
    """The elements that the kernel overwrites; None if they are unknown."""


type UnorderedReads = Mapping[int, tuple[UnorderedRead, ...]]
"""Maps the id of a scheduled instruction to its unordered reads."""


@dataclass(frozen=True, slots=True, eq=False)
class ActualWrite:
    """A hidden write as the optimized module performs it: by which call, and in which bytes."""

    write: int
    """Index of the hidden write."""
    frames: Frames
    slices: tuple[int, ...]
    """Numbers of the slices that hold the overwritten operand."""
    partial: bool = False
    """Whether the kernel gets an address inside the slice, and so only a part of it."""
    distinct_per_iteration: bool = False
    """Whether the kernel gets a different part of the slice in each iteration of the loop around its call (see
    `loop_slices`).
    """
    region: ArrayRegion | None = None
    """The part of the array that the kernel gets, if it is a single known region; `slices` then holds one array."""
    slice_tags: TagPath = ()
    """Tag path of the dynamic-slice that takes the kernel's part of the array. Instructions with this tag path take the
    same elements in the same iteration. Empty if the kernel gets no such part, or if the call is in more or fewer loops
    than in the program, because then iterations of the two do not correspond.
    """

    def covers_slice(self, number: int | None, reader: HloInstruction) -> bool:
        """Returns whether a slice instruction takes only elements that the kernel gets as its operand. reader: the
        instruction. number: the memory slice of the array that it slices. False if `number` is None, or if it is unknown
        which elements the kernel gets.
        """
        return number in self.slices and self.region is not None and self.region.covers(reader)

    @property
    def call(self) -> HloInstruction:
        return self.frames[-1].instruction


@dataclass(slots=True, eq=False)
class LabelMemory:
    """The current dependence set of each slice of the buffer assignment; the evaluation changes the sets as it runs."""

    module: HloModule
    places: Places
    space: LabelSpace
    unordered: UnorderedReads
    """The reads that get a mark because no dependence orders them with a hidden write."""
    sets: dict[int, Labels] = field(default_factory=dict[int, Labels])
    """Maps the number of a memory slice to the slice's dependence set; an empty set has no entry."""
    pieces: dict[int, Pieces] = field(default_factory=dict[int, Pieces])
    """Maps the number of a memory slice to the separate dependence sets of the parts (pieces) of the slice's value, if
    known (see `pieces`).
    """
    raw: dict[int, tuple[ActualWrite, ...]] = field(default_factory=dict[int, tuple[ActualWrite, ...]])
    journal: dict[int, Labels] | None = None
    """While a loop or branch runs, maps the number of a memory slice to the dependence set that the slice had before
    its first change there; otherwise None.
    """

    def put(self, number: int, value: PiecewiseLabels) -> None:
        """Sets the dependence set of a memory slice after an instruction has defined a value there."""
        if isinstance(value, Pieces):
            self.pieces[number] = value
            value = value.union
        elif self.pieces:
            self.pieces.pop(number, None)
        self._set(number, value)
        if self.raw:
            self.raw.pop(number, None)

    def _set(self, number: int, labels: Labels) -> None:
        sets = self.sets
        if self.journal is not None and number not in self.journal:
            self.journal[number] = sets.get(number, 0)
        if labels:
            sets[number] = labels
        elif number in sets:
            del sets[number]

    def read_all(self, places: tuple[OperandPlace, ...], reader: HloInstruction) -> tuple[Read, ...]:
        """Returns the arrays that `reader` reads, each as (number of the operand, slice number, dependence set).

        places: (number of the operand, slice number) of each array. The sets include the marks of lucky reads, which see or
        miss a hidden write only because of the order of this schedule.
        """
        sets = self.sets
        if reader.id not in self.unordered:
            return tuple([(operand, number, sets.get(number, 0)) for operand, number in places])
        return tuple(
            [(operand, number, sets.get(number, 0) | self.find_luck(reader, operand)) for operand, number in places]
        )

    def find_luck(self, reader: HloInstruction, operand: int) -> Labels:
        """Returns the marks (extra bits in dependence sets) of the lucky reads of an operand by `reader`. A lucky read sees
        or misses a hidden write only because of the order of this schedule.
        """
        reads = self.unordered.get(reader.id, ())
        return unite(self.space.mark(one.lucky) for one in reads if one.operand == operand)

    def find_pieces(self, number: int, reader: HloInstruction, operand: int) -> Pieces | None:
        """Returns the pieces of an array as `reader` reads it: parts of the array, each with its own dependence set.

        number: the memory slice of the array. operand: number of the reader's operand. Returns None if the pieces are
        unknown. A read is lucky if it sees or misses a hidden write only because of the order of this schedule. The pieces
        that this write overwrites have the mark of the lucky read in their sets.
        """
        pieces, value = self.pieces.get(number), reader.operands[operand]
        for one in self.unordered.get(reader.id, ()):
            if one.region is not None and (one.operand, one.lucky.slice_number) == (operand, number):
                before = self.sets.get(number, 0) if pieces is None else pieces
                pieces = one.region.replace(before, 0, self.space.mark(one.lucky))
        if pieces is None:
            return None
        bitcasts: list[HloInstruction] = []
        while value.opcode == "bitcast":
            bitcasts.append(value)
            value = value.operands[0]
        while pieces.shape != tuple(value.shape.dimensions):
            if not bitcasts:
                return None
            value = bitcasts.pop()  # the pieces are those of this bitcast: a slice of it was overwritten
        for bitcast in reversed(bitcasts):
            seen = follow_pieces(bitcast, [pieces])
            if not isinstance(seen, Pieces):
                return None
            pieces = seen
        return pieces

    def settle(self, number: int, labels: Labels) -> None:
        """Replaces the dependence set of a slice where a branch or an iteration ends. Does not record the change in the
        journal, so that the journal keeps the set from before the branch or loop.
        """
        self.pieces.pop(number, None)
        if labels:
            self.sets[number] = labels
        else:
            self.sets.pop(number, None)

    def overwrite(self, write: ActualWrite, dropped: Labels, added: Labels) -> None:
        """Performs a hidden write on the dependence sets of all slices that share bytes with the operand.

        Each of these slices gains the labels `added`, and becomes raw: XLA does not know of the change. A slice, or a known
        region of it, loses the labels `dropped` if all of it is overwritten.
        """
        for number in write.slices:
            for hit in self.overlapping(number):
                before = self.sets.get(hit, 0)
                pieces = self.pieces.pop(hit, None)
                if write.region is not None and hit == number:
                    self.pieces[hit] = write.region.replace(pieces or before, dropped, added)
                    self._set(hit, self.pieces[hit].union)
                else:
                    self._set(hit, before | added if write.partial or hit != number else before & ~dropped | added)
                self.raw[hit] = (*[w for w in self.raw.get(hit, ()) if w is not write], write)

    def list_overwritten(self, number: int, reader: HloInstruction) -> Labels:
        """Returns labels for the hidden writes that overwrite all elements that `reader` takes. The label of a write W
        is ORIG(W, 0). The label says that a value depends on the contents from before W.

        reader: an instruction that takes a slice of an array. number: the memory slice of this array.
        """
        path = self.module.tags.get(reader.id, ())
        return unite(
            self.space.original(write.write)
            for write in self.raw.get(number, ())
            if write.covers_slice(number, reader) or (path and path == write.slice_tags and number in write.slices)
        )

    def overlapping(self, number: int) -> Iterable[int]:
        """Returns the numbers of the slices that share bytes with slice `number`, which is one of them."""
        return self.places.buffers.overlapping[number] if number >= 0 else (number,)


def find_read_place(
    module: HloModule, slice_: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]
) -> int | None:
    """Returns the number of the memory slice of the array from which an instruction takes a part. slice_: the instruction;
    it is `scheduled` itself or fused into it. Returns None if `scheduled` does not read the array.
    """
    number, operand = 0, slice_.operands[0]
    if slice_ is not scheduled:
        if operand.opcode != "parameter" or module.homes[operand.id].id not in scheduled.called_computations:
            return None
        number = operand.proto.parameter_number
    places = [place for one, place, _ in reads if one == number]
    return places[0] if len(places) == 1 else None


@dataclass(slots=True, eq=False)
class Occurrence:
    """An instruction of the optimized module with the tag of a program operation, and the dependence set of its result."""

    instruction: Final[HloInstruction]
    """The instruction that computes the operation, perhaps inside a fusion."""
    scheduled: Final[HloInstruction]
    """The scheduled instruction that runs the operation: the instruction itself, or the fusion that contains it."""
    labels: Final[Labels]
    reads: Final[tuple[Read, ...]]
    """The arrays that the scheduled instruction reads: (number of the operand, slice number, dependence set of the slice
    when it is read).
    """


@dataclass(frozen=True, slots=True, eq=False)
class Actual:
    """The dependence sets of the schedule. They say on which hidden writes each output and each tagged operation
    depends.
    """

    outputs: tuple[Labels, ...]
    """The dependence set of each leaf of the entry computation's root, in order."""
    occurrences: Mapping[TagPath, tuple[Occurrence, ...]]
    writes: tuple[ActualWrite, ...]
    """Every hidden write that the optimized module still performs."""
    frames: Mapping[int, Frames]
    """Maps the id of a scheduled instruction to the call path by which the evaluation reached it last."""
    traced: frozenset[int] = frozenset()
    """Indices of the hidden writes for which the evaluation saw that the operand held its old contents (ORIG) when the
    kernel ran.
    """
    confluences: Mapping[TagPath, Confluence] = field(default_factory=dict[TagPath, Confluence])
    """Maps the tag path of each loop and conditional that the schedule still has to the alternative values, one of which
    becomes its result.
    """
