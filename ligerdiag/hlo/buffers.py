"""XLA's buffer assignment: the bytes of a BufferAllocation that hold each value, and how much memory a program needs.

A `Slice` is one (allocation, offset, size). Values that XLA keeps in the same bytes share a slice; slices of one
allocation may also overlap without being equal. `MemoryDemand` sums up the sizes of allocations as XLA's own memory analysis
does (xla/pjrt/pjrt_executable.cc), which a compile for a described GPU lacks in some versions.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.hlo.xla_pb2 import BufferAssignmentProto


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
    argument = output = temp = alias = 0
    for one in proto.buffer_allocations:
        is_argument, is_output = one.is_entry_computation_parameter, one.maybe_live_out
        argument += one.size * is_argument
        output += one.size * is_output
        alias += one.size * (is_argument and is_output)
        temp += one.size * (not (is_argument or is_output or one.is_thread_local or one.is_constant))
    return MemoryDemand(argument=argument, output=output, temp=temp, alias=alias)


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
        return (
            self.allocation == other.allocation
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferAssignment:
    """The slice number of every value that some instruction defines; `dataflow.Positions` finds those of aliases."""

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
    """None where XLA did not assign the buffers."""
    fault: str = ""
    """One clause: why the record contradicts itself, (4) of `aliasing`; empty if it does not."""


def parse_buffer_assignment(proto: BufferAssignmentProto, module: HloModule) -> BufferAssignment:
    """Returns the view of a BufferAssignmentProto. Raises ArtifactError if it names instructions that do not exist."""
    ids_by_name = {one.name: one.id for one in module.instructions}
    known = set(ids_by_name.values())
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
        defined = buffer.defined_at
        instruction = defined.instruction_id or ids_by_name.get(defined.instruction_name, 0)
        if instruction not in known:
            raise ArtifactError(
                f"the buffer assignment names the instruction {instruction}, which is not in the module"
            )
        definitions[instruction].append((tuple(defined.shape_index), number))
    slices = tuple(numbers)
    return BufferAssignment(
        slices=slices,
        definitions={key: tuple(value) for key, value in definitions.items()},
        overlapping=_Overlaps(slices),
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
    """Returns what contradicts (4) of `aliasing`."""
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


class _Overlaps(dict[int, tuple[int, ...]]):
    """Slice number to all that share bytes with it, computed when asked for: kernels overwrite few slices."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__()
        self._slices = slices
        self._by_allocation: defaultdict[int, list[int]] = defaultdict(list)
        for number, slice_ in enumerate(slices):
            self._by_allocation[slice_.allocation].append(number)

    def __missing__(self, number: int) -> tuple[int, ...]:
        this = self._slices[number]
        found = self[number] = tuple(
            [n for n in self._by_allocation[this.allocation] if this.overlaps(self._slices[n])]
        )
        return found
