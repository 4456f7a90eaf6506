"""XLA's buffer assignment: which bytes of which BufferAllocation hold each value, and how much memory a program needs.

How much memory a program needs on one device, by XLA's buffer assignment.

The figures are those of XLA's own memory analysis (xla/pjrt/pjrt_executable.cc), which a compile for a described GPU does
not have in every version: sizes of allocations, summed up.

XLA's buffer assignment: which bytes of which BufferAllocation each value stands in.

A `Slice` is one (allocation, offset, size). Values that XLA keeps in the same bytes share a slice; slices of one
allocation may also overlap without being equal.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.hlo.xla_pb2 import BufferAllocationProto, BufferAssignmentProto, LogicalBufferProto


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDemand:
    """Bytes on one device, by what they are for."""

    argument: int
    """Of the entry computation's parameters."""
    output: int
    """That may hold an output, parameters that do among them."""
    temp: int
    """Of the rest, without constants and what belongs to a thread."""
    alias: int
    """Of the parameters that may hold an output."""

    @property
    def peak(self) -> int:
        """All that is reserved, what arguments and outputs share counted once."""
        return self.argument + self.output + self.temp - self.alias


def compute_memory(proto: BufferAssignmentProto) -> MemoryDemand:
    """The figures of a whole buffer assignment."""

    def add(counts: Callable[[BufferAllocationProto], bool]) -> int:
        return sum(one.size for one in proto.buffer_allocations if counts(one))

    return MemoryDemand(
        argument=add(lambda one: one.is_entry_computation_parameter),
        output=add(lambda one: one.maybe_live_out),
        temp=add(_is_temporary),
        alias=add(lambda one: one.is_entry_computation_parameter and one.maybe_live_out),
    )


def _is_temporary(one: BufferAllocationProto) -> bool:
    kept = one.is_entry_computation_parameter or one.maybe_live_out
    return not kept and not one.is_thread_local and not one.is_constant


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes [offset, offset + size) of a BufferAllocation."""

    allocation: int
    """BufferAllocation index."""
    offset: int
    """Bytes."""
    size: int
    """Bytes."""

    def overlaps(self, other: "Slice") -> bool:
        """Whether at least one byte is shared."""
        return (
            self.allocation == other.allocation
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferAssignment:
    """Where XLA put every value that some instruction defines, as numbers of slices. See `positions` for aliases."""

    slices: tuple[Slice, ...]
    """All distinct slices; their position in this tuple is their number."""
    definitions: Mapping[int, tuple[tuple[ShapeIndex, int], ...]]
    """Instruction id to what it defines: (ShapeIndex, slice number); loop parameters define phi values."""
    overlapping: Mapping[int, tuple[int, ...]]
    """Slice number to the numbers of all slices that share bytes with it, itself included."""
    parameters: Mapping[int, tuple[int, ShapeIndex]]
    """Allocation index to (entry parameter number, ShapeIndex), where the allocation is an entry parameter's."""
    constants: frozenset[int] = frozenset()
    """Indices of the allocations that hold a constant, which stays as long as the program is loaded."""
    memory: MemoryDemand | None = None
    """What the program needs; None where it is not XLA that assigned the buffers."""
    fault: str = ""
    """Why the record is not to be believed, in one clause: see `aliasing`. Empty where it holds in itself."""


def parse_buffer_assignment(proto: BufferAssignmentProto, module: HloModule) -> BufferAssignment:
    """View of a BufferAssignmentProto. Raises ArtifactError when it refers to instructions that are not there."""
    ids_by_name = {i.name: i.id for c in module.computations.values() for i in c.instructions}
    known = set(ids_by_name.values())

    def locate(location: LogicalBufferProto.Location) -> tuple[int, ShapeIndex]:
        found = location.instruction_id or ids_by_name.get(location.instruction_name, 0)
        if found not in known:
            raise ArtifactError(f"the buffer assignment names the instruction {found}, which is not in the module")
        return found, tuple(location.shape_index)

    numbers: dict[Slice, int] = {}
    slice_of_buffer: dict[int, int] = {}
    for allocation in proto.buffer_allocations:
        for assigned in allocation.assigned:
            slice_ = Slice(allocation.index, assigned.offset, assigned.size)
            slice_of_buffer[assigned.logical_buffer_id] = numbers.setdefault(slice_, len(numbers))
    definitions: defaultdict[int, list[tuple[ShapeIndex, int]]] = defaultdict(list)
    for buffer in proto.logical_buffers:
        number = slice_of_buffer.get(buffer.id)
        if number is None:
            continue
        position = locate(buffer.defined_at)
        definitions[position[0]].append((position[1], number))
    slices = tuple(numbers)
    return BufferAssignment(
        slices=slices,
        definitions={key: tuple(value) for key, value in definitions.items()},
        overlapping=_compute_overlapping(slices),
        parameters={
            a.index: (a.parameter_number, tuple(a.parameter_shape_index))
            for a in proto.buffer_allocations
            if a.is_entry_computation_parameter
        },
        constants=frozenset(a.index for a in proto.buffer_allocations if a.is_constant),
        memory=compute_memory(proto),
        fault=_find_fault(proto, definitions),
    )


def _find_fault(proto: BufferAssignmentProto, definitions: Mapping[int, list[tuple[ShapeIndex, int]]]) -> str:
    """(1) of `aliasing`."""
    sizes = {buffer.id: buffer.size for buffer in proto.logical_buffers}
    if len(sizes) < len(proto.logical_buffers):
        return "two logical buffers have one id"
    if len({allocation.index for allocation in proto.buffer_allocations}) < len(proto.buffer_allocations):
        return "two allocations have one index"
    assigned: set[int] = set()
    for allocation in proto.buffer_allocations:
        for one in allocation.assigned:
            buffer = one.logical_buffer_id
            if one.size != sizes.get(buffer):
                return f"the logical buffer {buffer} has {sizes.get(buffer, 'no')} bytes and is assigned {one.size}"
            if one.offset < 0 or one.size < 0 or one.offset + one.size > allocation.size:
                return f"the logical buffer {buffer} stands outside of its allocation"
            if buffer in assigned:
                return f"the logical buffer {buffer} is assigned twice"
            assigned.add(buffer)
    if len(assigned) < len(sizes):
        return f"the logical buffer {min(sizes.keys() - assigned)} is assigned nowhere"
    if any(len({index for index, _ in found}) < len(found) for found in definitions.values()):
        return "a value has two places"
    return ""


def _compute_overlapping(slices: tuple[Slice, ...]) -> Mapping[int, tuple[int, ...]]:
    """Lazily, one slice at a time: only the few slices that a kernel overwrites are ever asked for."""
    by_allocation: defaultdict[int, list[int]] = defaultdict(list)
    for number, slice_ in enumerate(slices):
        by_allocation[slice_.allocation].append(number)
    return _Overlaps(slices, by_allocation)


class _Overlaps(dict[int, tuple[int, ...]]):
    def __init__(self, slices: tuple[Slice, ...], by_allocation: Mapping[int, list[int]]) -> None:
        super().__init__()
        self._slices = slices
        self._by_allocation = by_allocation

    def __missing__(self, number: int) -> tuple[int, ...]:
        this = self._slices[number]
        found = tuple(n for n in self._by_allocation[this.allocation] if this.overlaps(self._slices[n]))
        self[number] = found
        return found
