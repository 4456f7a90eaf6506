"""XLA's buffer assignment from its text, `…after_optimizations-buffer-assignment.txt`, where a dump has no protobuf.

The form is that of BufferAssignment::ToString (xla/service/buffer_assignment.cc) and HloValue::ToShortString:

    allocation 0: size 8192[, page 0][, color 1][, parameter 1, shape |f32[16,128]| at ShapeIndex {0}][, output shape is |…|]
        [, constant][, thread-local][, maybe-live-out][, preallocated-temp]:
     value: <28 name{1,0} (phi) @0> (size=8192,offset=0): f32[16,128]{1,0}

Names have their ShapeIndex where the instruction's shape is a tuple. A line within the allocations that has another form
makes the whole unusable: bytes that are missing could be those that a kernel overwrites.
"""

import re

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, parse_buffer_assignment
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import BufferAllocationProto, BufferAssignmentProto

HEADING = "BufferAssignment:"

_ALLOCATION = re.compile(
    r"allocation (?P<index>\d{1,18}): size (?P<size>\d{1,18})(?:, page \d+)?(?:, color \d+)?"
    r"(?:, parameter (?P<parameter>\d{1,9}), shape \|[^|]*\| at ShapeIndex \{(?P<place>[\d,]*)\})?"
    r"(?:, output shape is \|[^|]*\|)?(?P<flags>(?:, [a-z-]+)*):"
)
_VALUE = re.compile(
    r" value: <(?P<id>\d{1,18}) (?P<name>[^\s{}<>]+)(?:\{(?P<place>[\d,]*)\})?(?: \(phi\))?(?: @\d+)?> "
    r"\(size=(?P<size>\d{1,18}),offset=(?P<offset>\d{1,18})\): .+"
)
_DEFINING = having(Trait.HAS_BUFFER)
"""Opcodes that always define a value of their own."""
_FLAGS = frozenset({"constant", "thread-local", "maybe-live-out", "preallocated-temp"})


def parse_buffer_text(text: str, module: HloModule) -> BufferAssignment:
    """Returns the buffer assignment of the module. Raises ArtifactError for a form that is not XLA's, or another
    module's."""
    lines = text.split("\n")
    if lines[0].rstrip() != HEADING:
        raise ArtifactError(f"expected `{HEADING}` but got `{lines[0]:.60}`")
    proto = BufferAssignmentProto()
    allocation: BufferAllocationProto | None = None
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            break
        value = _VALUE.fullmatch(line)
        if value is not None and allocation is not None:
            _add_value(proto, allocation, value, number)
            continue
        heading = _ALLOCATION.fullmatch(line)
        if heading is None:
            raise ArtifactError(f"line {number} of the buffer assignment is not known: `{line:.60}`")
        allocation = _add_allocation(proto, heading, number)
    else:
        raise ArtifactError("the buffer assignment ends too early")
    _require_all_values(proto, module)
    buffers = parse_buffer_assignment(proto, module)
    _require_all_definitions(buffers, module)
    return buffers


def _add_allocation(proto: BufferAssignmentProto, heading: re.Match[str], number: int) -> BufferAllocationProto:
    if int(heading["index"]) != len(proto.buffer_allocations):
        raise ArtifactError(f"line {number} of the buffer assignment: allocation {heading['index']} is out of turn")
    flags = frozenset(heading["flags"].split(", ")[1:])
    if flags - _FLAGS:
        raise ArtifactError(f"line {number} of the buffer assignment: unknown word `{min(flags - _FLAGS):.40}`")
    return proto.buffer_allocations.add(
        index=int(heading["index"]),
        size=int(heading["size"]),
        is_thread_local="thread-local" in flags,
        is_constant="constant" in flags,
        maybe_live_out="maybe-live-out" in flags,
        is_entry_computation_parameter=heading["parameter"] is not None,
        parameter_number=int(heading["parameter"] or 0),
        parameter_shape_index=_parse_place(heading["place"]),
    )


def _add_value(
    proto: BufferAssignmentProto, allocation: BufferAllocationProto, value: re.Match[str], number: int
) -> None:
    size, offset = int(value["size"]), int(value["offset"])
    if offset + size > allocation.size:
        raise ArtifactError(
            f"line {number} of the buffer assignment: `{value['name']}` stands outside of its allocation"
        )
    allocation.assigned.add(logical_buffer_id=int(value["id"]), offset=offset, size=size)
    buffer = proto.logical_buffers.add(id=int(value["id"]), size=size)
    buffer.defined_at.instruction_name = value["name"]
    buffer.defined_at.shape_index.extend(_parse_place(value["place"]))


def _parse_place(text: str | None) -> list[int]:
    return [int(part) for part in (text or "").split(",") if part]


def _require_all_values(proto: BufferAssignmentProto, module: HloModule) -> None:
    """Raises ArtifactError when a value has no name of the module: the text is of another compilation."""
    names = {i.name for computation in module.computations.values() for i in computation.instructions}
    for buffer in proto.logical_buffers:
        if buffer.defined_at.instruction_name not in names:
            raise ArtifactError(
                f"the buffer assignment names `{buffer.defined_at.instruction_name}`, which is not in `{module.name}`"
            )


def _require_all_definitions(buffers: BufferAssignment, module: HloModule) -> None:
    """Raises ArtifactError when something that is executed has no place: the text was cut between two lines."""
    for computation in module.computations.values():
        for instruction in computation.sequence:
            is_argument = instruction.opcode == "parameter" and computation is module.entry
            if (is_argument or instruction.opcode in _DEFINING) and instruction.id not in buffers.definitions:
                raise ArtifactError(f"the buffer assignment has no place for `{instruction.name}`")
