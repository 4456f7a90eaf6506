"""Finds the reads that nothing orders with a hidden write. This is the project's only definition of a lucky read.

A *call path* leads from the entry computation to an instruction. It is a tuple of frames, each an instruction and the
computation that contains it; the last frame is the instruction itself. A *memory slice* is the bytes that the buffer
assignment gives to one array; it has a number.

A scheduled instruction R reads a value that a hidden write W overwrites; `hlo.shared_storage` says which values W
overwrites. R and W are ordered

- if a path of operands and control edges leads from one to the other, or between the instructions that run them, in one
  computation. An asynchronous operation has read and written when its done has run;
- if they are in the body and the condition of one loop, or in two branches of which only one runs;
- across iterations of a loop: these follow each other.

Otherwise XLA may run them in either order, and every value computed from R's result changes with the order: R is
*lucky*, whichever version it is meant to see. That R happens to run first, or last, in this schedule does not count as
an order. R is lucky even if the author expects no kernel to change the value that it reads: XLA may have merged that
value with an equal one that a kernel overwrites. These reads are not lucky:

- a read that takes none of the elements that the kernel overwrites, if these elements are known; if a read takes some
  of them, only values computed from those are lucky, as far as `pieces` can distinguish them;
- a read that only names a value or passes it to a computation, and a kernel's read of an operand that it does not
  touch.

A kernel that overwrites a value that another kernel overwrites counts as a reader, even if it never loads the value:
the later of the two decides the final contents.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.evaluation.label_memory import ActualWrite, LuckyRead, Places, UnorderedRead, UnorderedReads
from ligerdiag.analysis.evaluation.order import Order
from ligerdiag.analysis.writes import EffectsOf, Frame, Frames, HiddenWrite
from ligerdiag.effects.access import Access
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import map_same_arrays
from ligerdiag.hlo.dataflow import Definition, look_through
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.hlo.shared_storage import SharedStorage

_RUNS = having(Trait.RUNS_SCHEDULED)
_READS_NOTHING = having(Trait.LAUNCHES_NOTHING, Trait.DONE, Trait.UPDATE)
_PARTS = having(Trait.FORWARDS, Trait.TAKES_ELEMENT) | {"slice", "dynamic-slice"}
_MOST_STEPS = 20
"""Limit of the search, as the average number of visits to each of the module's instructions: an instruction is visited
once for each call path that leads to it.
"""


def find_unordered_reads(
    module: HloModule,
    places: Places,
    writes: tuple[ActualWrite, ...],
    writes_by_call: Mapping[int, tuple[HiddenWrite, ...]],
    effects_of: EffectsOf,
) -> UnorderedReads:
    """Returns the lucky reads of a module by id of the reading instruction. A read is lucky if it sees or misses a hidden
    write only because of the order of this schedule. writes_by_call: maps the id of a call to its hidden writes.
    """
    if not writes or not module.is_scheduled:
        return {}
    return _Search(module, places, writes, writes_by_call, effects_of).find()


@dataclass(slots=True, eq=False)
class _Search:
    module: HloModule
    places: Places
    writes: tuple[ActualWrite, ...]
    writes_by_call: Mapping[int, tuple[HiddenWrite, ...]]
    effects_of: EffectsOf
    _storage: SharedStorage = field(init=False)
    _order: Order = field(default_factory=Order)
    _by_slice: dict[int, list[ActualWrite]] = field(default_factory=dict[int, list[ActualWrite]])
    _overwriting: dict[int, dict[Definition, list[int]]] = field(default_factory=dict[int, dict[Definition, list[int]]])
    """Maps the number of a memory slice to a map from the definition of a value in that slice to the writes that
    overwrite the value. A write is represented by its position in the slice's list in `_by_slice`.
    """
    _positions: dict[int, Mapping[int, int]] = field(default_factory=dict[int, Mapping[int, int]])
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = _MOST_STEPS * self.module.instruction_count
        self._storage = SharedStorage(self.module, map_same_arrays(self.places.buffers, self.module))
        for write in self.writes:
            for number in write.slices:
                self._by_slice.setdefault(number, []).append(write)

    def find(self) -> UnorderedReads:
        found: dict[int, dict[UnorderedRead, None]] = {}
        for frames in self._walk(self.module.entry, ()):
            for read in self._find_lucky(frames):
                found.setdefault(read.lucky.reader, {})[read] = None
        return {reader: tuple(some) for reader, some in found.items()}

    def _walk(self, computation: HloComputation, prefix: Frames) -> Iterator[Frames]:
        """Yields the call path to each loop, each conditional, and each other scheduled instruction that reads memory
        which a kernel overwrites at some time.
        """
        sequence = computation.sequence or computation.instructions
        self._left -= len(sequence)
        if self._left < 0:
            raise ArtifactError("the module has too many paths of nested calls to analyse")
        targeted, list_read = self._by_slice.keys(), self.places.list_read
        for instruction in sequence:
            opcode = instruction.opcode
            if opcode in _READS_NOTHING:
                continue
            if opcode in _RUNS:
                frames = (*prefix, Frame(computation, instruction))
                for number in instruction.called_computations:
                    yield from self._walk(self.module.computations[number], frames)
                if opcode in ("conditional", "while"):
                    yield frames
            elif not targeted.isdisjoint(list_read(instruction)):
                yield (*prefix, Frame(computation, instruction))

    def _find_lucky(self, reader: Frames) -> Iterator[UnorderedRead]:
        for operand, value, number, index in self._list_read(reader[-1].instruction):
            for write in self._list_overwriting(number, value, index):
                if self._order.is_forced(write.frames, reader) or self._order.is_forced(
                    reader, write.frames, from_second=True
                ):
                    continue
                if write.region is None or not avoids(self.module, self.places, write, reader, number):
                    after = self._comes_after(reader, write.frames)
                    lucky = LuckyRead(write.write, reader[-1].instruction.id, after, number)
                    yield UnorderedRead(operand, lucky, write.region)

    def _list_read(self, reader: HloInstruction) -> Iterator[tuple[int, HloInstruction, int, tuple[int, ...]]]:
        """Yields each array that an instruction reads: (number of the operand, value, slice number, index of the leaf)."""
        if reader.opcode == "while":  # the loop itself reads only its predicate
            root = self.module.computations[reader.called_computations[1]].root
            for number in self.places.locate(root):
                yield 0, root, number, ()
            return
        operands = reader.operands[:1] if reader.opcode == "conditional" else reader.operands
        accesses = self.effects_of(reader).operands if reader.opcode == "custom-call" else ()
        for operand, value in enumerate(operands):
            if operand < len(accesses) and accesses[operand] is Access.NONE:
                continue
            for number, index in zip(self.places.locate(value), iterate_leaves(value.shape), strict=False):
                yield operand, value, number, index

    def _list_overwriting(self, number: int, value: HloInstruction, index: ShapeIndex) -> Iterator[ActualWrite]:
        """Yields the writes that overwrite this leaf of the value in the memory slice `number`, in the order of
        `writes`.
        """
        writes = self._by_slice.get(number)
        if writes is None:
            return
        places = self._overwriting.get(number)
        if places is None:
            places = self._overwriting[number] = {}
            for place, write in enumerate(writes):
                for definition in self._find_overwritten(write):
                    places.setdefault(definition, []).append(place)
        found = [places[one] for one in self._storage.find(value, index) if one in places]
        for place in found[0] if len(found) == 1 else sorted({place for some in found for place in some}):
            yield writes[place]

    def _find_overwritten(self, write: ActualWrite) -> frozenset[Definition]:
        """Returns the definitions of the values that a hidden write overwrites."""
        numbers = [one.operand for one in self.writes_by_call.get(write.call.id, ()) if one.index == write.write]
        values = [write.call.operands[number] for number in numbers]
        for outer in reversed(write.frames[:-1]):
            if outer.instruction.opcode != "fusion":
                break
            parameters = [look_through(value, _PARTS) for value in values]
            values = [
                outer.instruction.operands[one.proto.parameter_number]
                for one in parameters
                if one.opcode == "parameter"
            ]
        return frozenset(
            definition
            for value in values
            for index in iterate_leaves(value.shape)
            for definition in self._storage.find(value, index)
        )

    def _comes_after(self, reader: Frames, write: Frames) -> bool:
        for one, other in zip(reader, write, strict=False):
            if one.instruction is not other.instruction:
                places = self._positions.get(one.computation.id)
                if places is None:
                    listed = one.computation.sequence or one.computation.instructions
                    places = self._positions[one.computation.id] = {i.id: at for at, i in enumerate(listed)}
                return places[one.instruction.id] > places[other.instruction.id]
        return False


def avoids(module: HloModule, places: Places, write: ActualWrite, reader: Frames, number: int) -> bool:
    """Returns whether a reader and a kernel use different elements of one array.

    write: the kernel's part, its operand. reader: call path of an instruction that slices the array, or of a fusion that
    does. number: the memory slice that holds the array. Returns False if the kernel's part is unknown.
    """
    instruction = reader[-1].instruction
    if write.region is None or number not in write.slices:
        return False
    if instruction.opcode == "slice":
        return write.region.is_disjoint_from(instruction)
    if instruction.opcode != "fusion":
        return False
    fused = module.computations[instruction.called_computations[0]]
    given = {operand for operand, place in places.list_operands(instruction) if place == number}
    return all(
        write.region.is_disjoint_from(user)
        for parameter in fused.parameters
        if parameter.proto.parameter_number in given
        for user in fused.users[parameter.id]
    )
