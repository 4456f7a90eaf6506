"""Parses XLA's buffer assignment: the bytes of a BufferAllocation that hold each value, and the memory that a program
needs.

A `Slice` is one (allocation, offset, size). Values in the same bytes share a slice; different slices of one allocation may
overlap. `MemoryDemand` adds up allocation sizes as XLA's own memory analysis does (xla/pjrt/pjrt_executable.cc). In some
versions, XLA lacks that analysis when it compiles for a GPU that is only described to it.

`name_hits` names the value that a kernel hits when it accesses bytes outside of its buffers: the buffer's place plus the
access's offset. Several values may use these bytes over time. `name_hits` prefers an output of the call itself, then the
value that is defined last before the call, in the call's computation or else before the loop, branch or call around it. That
value may be dead by then. Parameters of the program occupy their bytes from the start.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.hlo.xla_pb2 import BufferAssignmentProto
from ligerdiag.model.findings import LaunchNumbers, OutsideAccess

if TYPE_CHECKING:
    from ligerdiag.hlo.dataflow import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDemand:
    """The bytes that a program needs on one device, by purpose."""

    argument: int
    """Bytes of the entry computation's parameters."""
    output: int
    """Bytes of allocations that may hold an output, parameters included."""
    temp: int
    """Bytes of all other allocations, except constants and thread-local allocations."""
    alias: int
    """Bytes of parameters that may hold an output."""

    @property
    def peak(self) -> int:
        """Returns the number of all reserved bytes. Bytes that arguments and outputs share count once."""
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
    """The bytes [offset, offset + size) of one BufferAllocation."""

    allocation: int
    """Index of the BufferAllocation."""
    offset: int
    """Bytes from the start of the allocation."""
    size: int
    """Number of bytes."""

    def overlaps(self, other: "Slice") -> bool:
        return (
            self.allocation == other.allocation
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferAssignment:
    """Maps each value to its bytes, a slice of an allocation. Only the instruction that defines a value has an entry;
    `dataflow.Positions` finds the slice for an instruction that only passes a value on.
    """

    slices: tuple[Slice, ...]
    """All distinct slices; a slice's number is its index here."""
    definitions: Mapping[int, tuple[tuple[ShapeIndex, int], ...]]
    """Maps the id of an instruction to the values that it defines, each as (ShapeIndex, slice number). A parameter
    of a loop's body or condition defines the value that the loop joins from its initial value and the body's result
    (XLA's phi).
    """
    overlapping: Mapping[int, tuple[int, ...]]
    """Maps the number of a slice to the numbers of all slices that share bytes with it; each slice shares bytes with itself.
    """
    parameters: Mapping[int, tuple[int, ShapeIndex]]
    """Maps the index of each allocation that holds an entry parameter to (entry parameter number, ShapeIndex).
    """
    constants: frozenset[int] = frozenset()
    """Indices of the allocations that hold a constant, which stays in memory as long as the program is loaded."""
    memory: MemoryDemand | None = None
    """The memory that the program needs; None where XLA did not assign the buffers."""
    fault: str = ""
    """One clause on how the assignment contradicts itself; empty if it does not."""


def parse_buffer_assignment(proto: BufferAssignmentProto, module: HloModule) -> BufferAssignment:
    """Returns XLA's buffer assignment from its protobuf. Raises ArtifactError if it names an instruction that the module
    does not have.
    """
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


def share_parameters(
    buffers: BufferAssignment, module: HloModule, groups: Iterable[Collection[int]]
) -> BufferAssignment:
    """Returns the assignment for a call that passes one array as several arguments. All parameters that get the array are in
    the bytes of the first one, as when the program runs.

    groups: the numbers of the entry parameters that get one array, group by group. A group stays unchanged if it has a
    donated parameter, because the runtime refuses to run such a call, or a parameter of tuple shape.
    """
    donated = {entry.parameter_number for entry in module.input_output_alias.entries}
    allocations = {place: allocation for allocation, place in buffers.parameters.items()}
    moved: dict[int, int] = {}
    for group in groups:
        found = [allocations.get((number, ())) for number in sorted(group)]
        if donated.isdisjoint(group) and found and None not in found:
            first, *others = [one for one in found if one is not None]
            moved |= dict.fromkeys(others, first)
    if not moved:
        return buffers
    numbers: dict[Slice, int] = {}
    renumbered = [
        numbers.setdefault(replace(one, allocation=moved.get(one.allocation, one.allocation)), len(numbers))
        for one in buffers.slices
    ]
    slices = tuple(numbers)
    definitions = {
        key: tuple([(index, renumbered[number]) for index, number in values])
        for key, values in buffers.definitions.items()
    }
    return replace(buffers, slices=slices, definitions=definitions, overlapping=_Overlaps(slices))


def list_same_arrays(
    buffers: BufferAssignment, parameter: HloInstruction, module: HloModule
) -> tuple[HloInstruction, ...]:
    """Returns the entry parameters that get the same array as `parameter`, without `parameter` (see `share_parameters`)."""
    own = _list_allocations(buffers, parameter)
    others = [one for one in module.entry.parameters if one is not parameter]
    return tuple([one for one in others if own and _list_allocations(buffers, one) == own])


def map_same_arrays(buffers: BufferAssignment, module: HloModule) -> dict[int, HloInstruction]:
    """Maps the id of each entry parameter that is the same array as an earlier one, according to `share_parameters`, to
    the earliest of them.
    """
    first: dict[tuple[int, ...], HloInstruction] = {}
    found: dict[int, HloInstruction] = {}
    for parameter in module.entry.parameters:
        place = _list_allocations(buffers, parameter)
        earlier = first.setdefault(place, parameter)
        if place and earlier is not parameter:
            found[parameter.id] = earlier
    return found


def _list_allocations(buffers: BufferAssignment, instruction: HloInstruction) -> tuple[int, ...]:
    return tuple([buffers.slices[number].allocation for _, number in buffers.definitions.get(instruction.id, ())])


def _find_fault(proto: BufferAssignmentProto, definitions: Mapping[int, list[tuple[ShapeIndex, int]]]) -> str:
    """Returns one clause on how the assignment contradicts itself; empty if it does not."""
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
                return f"the logical buffer {buffer} has {sizes.get(buffer, 'no')} bytes, but {one.size} are assigned to it"
            if one.offset < 0 or one.size < 0 or one.offset + one.size > allocation.size:
                return f"the logical buffer {buffer} extends beyond its allocation"
            if buffer in assigned:
                return f"the logical buffer {buffer} is assigned twice"
            assigned.add(buffer)
    if len(assigned) < len(sizes):
        return f"the logical buffer {min(sizes.keys() - assigned)} is in no allocation"
    if any(len({index for index, _ in found}) < len(found) for found in definitions.values()):
        return "two logical buffers hold one value"
    return ""


class _Overlaps(dict[int, tuple[int, ...]]):
    """Maps a slice number to the numbers of all slices that share bytes with that slice; computed on demand, since
    kernels overwrite few slices.
    """

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


def find_hit(
    access: OutsideAccess, call: HloInstruction, module: HloModule, buffers: BufferAssignment, positions: "Positions"
) -> str | None:
    """Returns the name of the instruction whose value a kernel hits when it accesses bytes outside of its buffers.

    access: the access. call: the kernel's call. positions: finds the slices of the call's buffers in `buffers`. Returns
    '' if the accessed bytes have no value, and None if the bytes are unknown.
    """
    place = _find_place(access, call, buffers, positions)
    if place is None:
        return None
    hit = {number for number, slice_ in enumerate(buffers.slices) if slice_.overlaps(place)}
    for instruction in _walk_back(call, module):
        if any(number in hit for _, number in buffers.definitions.get(instruction.id, ())):
            return instruction.name
    return ""


def _find_place(
    access: OutsideAccess, call: HloInstruction, buffers: BufferAssignment, positions: "Positions"
) -> Slice | None:
    """Returns the bytes that an access outside of its buffer hits; None if they are unknown."""
    if access.buffer is None:
        return None
    count = len(call.operands)
    if access.buffer < count:
        number = positions.find(call.operands[access.buffer], ())
    else:
        number = positions.find(call, list(iterate_leaves(call.shape))[access.buffer - count])
    if number is None:
        return None
    slice_ = buffers.slices[number]
    return Slice(slice_.allocation, slice_.offset + access.first_byte, access.width)


def _walk_back(call: HloInstruction, module: HloModule) -> Iterator[HloInstruction]:
    """Yields the call and the instructions before it, last first, then those before the loop, branch or call around it,
    and at the end the program's parameters.
    """
    seen: set[int] = set()
    pending = [call]
    while pending:
        instruction = pending.pop()
        home = module.homes[instruction.id]
        if home.id in seen:
            continue
        seen.add(home.id)
        names = [one.id for one in home.sequence]
        if instruction.id not in names:
            continue
        yield from reversed(home.sequence[: names.index(instruction.id) + (instruction is call)])
        pending += module.callers.get(home.id, ())
    yield from module.entry.parameters


def name_hits(
    launches: Sequence[LaunchNumbers], module: HloModule, buffers: BufferAssignment
) -> tuple[LaunchNumbers, ...]:
    """Adds the name of the hit value to each access outside of a buffer (see `find_hit`). launches: the replay's
    observations of kernel calls. Returns the observations; those of a call that the schedule does not have are unchanged.
    """
    if not any(one.outside for one in launches):
        return tuple(launches)
    from ligerdiag.hlo.dataflow import Positions  # imported late: that module imports this one

    positions = Positions(module, buffers)
    calls = {i.name: i for c in module.computations.values() for i in c.sequence}
    named: list[LaunchNumbers] = []
    for launch in launches:
        call = calls.get(launch.instruction)
        if call is None:
            named.append(launch)
            continue
        outside = tuple(replace(one, hit=find_hit(one, call, module, buffers, positions)) for one in launch.outside)
        named.append(replace(launch, outside=outside))
    return tuple(named)
