"""A buffer assignment that XLA wrote is trusted; one that somebody changed is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.aliasing import build_must_alias_buffers, find_buffer_fault
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import BufferAssignmentProto, HloProto
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.hlo.building import Builder, array, tuple_of

PROGRAMS = Path(__file__).parents[1] / "compile" / "programs"


@pytest.fixture(scope="module")
def compiled(shared_cache: Path) -> bytes:
    """Returns the HloProto that XLA made of a program."""
    with Pool(cache=Cache(shared_cache), jobs=1) as pool:
        cases = discover_cases(["doubling.py"], pool=pool, directory=PROGRAMS)
        (result, *_) = compile_cases(cases, [load_target("h100")], pool=pool)
    assert result.artifact is not None, result.error
    return result.artifact.optimized.read_bytes()


def find_fault(proto: HloProto) -> str:
    module, buffers = parse_hlo(proto.SerializeToString())
    assert buffers is not None
    return find_buffer_fault(module, buffers)


def test_an_assignment_that_xla_wrote_is_trusted(compiled: bytes) -> None:
    assert find_fault(HloProto.FromString(compiled)) == ""


def drop_one_value(assignment: BufferAssignmentProto) -> None:
    """Drops the first value of the first allocation that has one."""
    allocation = next(one for one in assignment.buffer_allocations if one.assigned)
    del allocation.assigned[0]


def set_a_size_to_zero(assignment: BufferAssignmentProto) -> None:
    next(one for one in assignment.buffer_allocations if one.assigned).assigned[0].size = 0


def set_a_negative_size(assignment: BufferAssignmentProto) -> None:
    next(one for one in assignment.buffer_allocations if one.assigned).assigned[0].size = -4


def drop_all_allocations(assignment: BufferAssignmentProto) -> None:
    del assignment.buffer_allocations[:]


def move_past_the_end(assignment: BufferAssignmentProto) -> None:
    allocation = next(one for one in assignment.buffer_allocations if one.assigned)
    allocation.assigned[0].offset = allocation.size


def assign_twice(assignment: BufferAssignmentProto) -> None:
    allocation = next(one for one in assignment.buffer_allocations if one.assigned)
    allocation.assigned.add().CopyFrom(allocation.assigned[0])


@pytest.mark.parametrize(
    "change",
    [
        drop_one_value,
        set_a_size_to_zero,
        set_a_negative_size,
        drop_all_allocations,
        move_past_the_end,
        assign_twice,
    ],
)
def test_a_changed_assignment_is_not_trusted(change: Callable[[BufferAssignmentProto], None], compiled: bytes) -> None:
    proto = HloProto.FromString(compiled)
    change(proto.buffer_assignment)
    assert find_fault(proto)


def test_a_tuple_has_no_storage_for_an_element(compiled: bytes) -> None:
    proto = HloProto.FromString(compiled)
    entry = next(one for one in proto.hlo_module.computations if one.id == proto.hlo_module.entry_computation_id)
    root = next(one for one in entry.instructions if one.id == entry.root_id)
    assert root.opcode == "tuple"
    tables = [one for one in proto.buffer_assignment.logical_buffers if one.defined_at.instruction_id == root.id]
    assert [tuple(one.defined_at.shape_index) for one in tables] == [()]
    tables[0].defined_at.shape_index.append(0)
    assert find_fault(proto).endswith("only passes a value on, but has bytes of its own")


def test_a_constant_of_several_arrays_has_storage_for_each() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    constant = builder.add(entry, "constant", shape=tuple_of(array(), tuple_of(array(4))))
    builder.add(entry, "get-tuple-element", [constant], shape=array(), tuple_index=0)
    buffers = build_must_alias_buffers(parse_hlo(builder.bytes())[0])
    assert [index for index, _ in buffers.definitions[constant.id]] == [(0,), (1, 0)]
    assert buffers.constants == {number for _, number in buffers.definitions[constant.id]}
