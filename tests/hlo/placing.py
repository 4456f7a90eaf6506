"""Makes scheduled HLO text with a buffer assignment by hand; a value without an offset gets its own bytes."""

from collections.abc import Mapping
from typing import Any

from jaxlib import _hlo  # type: ignore[attr-defined]

from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.parse import parse_hlo_module
from ligerdiag.hlo.shape import ShapeIndex, compute_byte_size, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import HloProto

ARENA = 0
"""Index of the allocation for values with an offset."""


def read_text(text: str) -> HloProto:
    """Returns the module of an HLO text, without a buffer assignment."""
    library: Any = _hlo
    proto = HloProto()
    proto.hlo_module.ParseFromString(library.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    return proto


def place(text: str, offsets: Mapping[str, int]) -> bytes:
    """Returns an HloProto with a buffer assignment.

    `offsets` maps `t`, or `f{0}` for one of several results, to its offset in the arena. Values that must share storage
    by XLA's rules lie where one of them does.
    """
    proto = read_text(text)
    module = parse_hlo_module(proto.hlo_module.SerializeToString())
    shared = build_must_alias_buffers(module, ambiguous=True)
    instructions = {one.id: one for one in module.instructions}
    wanted = {_parse(name): offset for name, offset in offsets.items()}
    groups: dict[int, int] = {}
    for number, defined in shared.definitions.items():
        for index, group in defined:
            if (instructions[number].name, index) in wanted:
                groups[group] = wanted.pop((instructions[number].name, index))
    assert not wanted, f"no instruction defines {wanted}"
    assignment, allocations = proto.buffer_assignment, dict[object, Any]()
    given = set(shared.parameters)
    for number, defined in shared.definitions.items():
        instruction = instructions[number]
        shapes = dict(iterate_leaf_shapes(instruction.shape))
        for index, group in defined:
            size = compute_byte_size(shapes[index])
            if size is None:
                continue
            key = ARENA if group in groups and group not in given else -1 - group
            allocation = allocations.get(key)
            if allocation is None:
                allocation = allocations[key] = assignment.buffer_allocations.add(index=len(allocations) + 1)
                allocation.is_constant = group in shared.constants
                if group in shared.parameters:
                    allocation.is_entry_computation_parameter = True
                    allocation.parameter_number = shared.parameters[group][0]
                    allocation.parameter_shape_index.extend(shared.parameters[group][1])
            buffer = assignment.logical_buffers.add(id=len(assignment.logical_buffers) + 1, size=size)
            buffer.defined_at.instruction_id = number
            buffer.defined_at.shape_index.extend(index)
            offset = groups[group] if key == ARENA else 0
            allocation.size = max(allocation.size, offset + size)
            allocation.assigned.add(logical_buffer_id=buffer.id, offset=offset, size=size)
    return proto.SerializeToString()


def _parse(name: str) -> tuple[str, ShapeIndex]:
    head, _, index = name.partition("{")
    return head, tuple([int(one) for one in index.rstrip("}").split(",") if one])
