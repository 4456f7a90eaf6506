"""Parses modules from bytes; a fault is an error of one line, and a faulty module is never trusted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo, parse_hlo
from tests.hlo.building import Builder, array


def build_small() -> Builder:
    builder = Builder()
    inner = builder.computation("inner")
    builder.add(inner, "parameter")
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    builder.add(entry, "call", [x], calls=[inner])
    return builder


def expect_error(builder: Builder, text: str) -> None:
    with pytest.raises(ArtifactError) as raised:
        parse_hlo(builder.bytes())
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_small_module_is_read() -> None:
    module, buffers = parse_hlo(build_small().bytes())
    assert buffers is None
    assert isinstance(module, HloModule)
    assert [c.name for c in module.computations.values()] == ["inner", "entry"]
    assert module.entry.root.opcode == "call"
    assert module.entry.root.operands == (module.entry.instructions[0],)
    assert module.entry.users[module.entry.instructions[0].id] == (module.entry.root,)
    assert module.instruction_count == 3
    assert not module.is_scheduled


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_artifact_error(data: bytes) -> None:
    with pytest.raises(ArtifactError) as raised:
        parse_hlo(data)
    assert "\n" not in str(raised.value)


@given(st.data())
def test_a_truncated_module_is_an_artifact_error_or_whole(data: st.DataObject) -> None:
    whole = build_small().bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ArtifactError):
        parse_hlo(whole[:cut])


def test_an_empty_module_is_refused() -> None:
    builder = Builder()
    builder.proto.hlo_module.name = "empty"
    expect_error(builder, "holds no HLO module")


def test_a_missing_operand_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.computations[1].instructions[1].operand_ids[0] = 77
    expect_error(builder, "`call.3` has operand 77, but no instruction before it has this id")


def test_an_operand_of_another_computation_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.computations[1].instructions[1].operand_ids[0] = 1
    expect_error(builder, "has operand 1")


def test_an_operand_that_comes_later_is_refused() -> None:
    builder = build_small()
    entry = builder.proto.hlo_module.computations[1]
    entry.instructions[0].operand_ids.append(3)
    expect_error(builder, "has operand 3")


def test_a_missing_called_computation_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.computations[1].instructions[1].called_computation_ids[0] = 9
    expect_error(builder, "calls computation 9, but no computation before it has this id")


@pytest.mark.parametrize("callee", [1, 2])
def test_recursion_is_refused(callee: int) -> None:
    # a computation that calls itself, and one that calls its caller
    builder = build_small()
    caller = builder.proto.hlo_module.computations[callee - 1].instructions[0]
    caller.called_computation_ids.append(2)
    expect_error(builder, "calls computation 2")


def test_two_instructions_with_one_id_are_refused() -> None:
    builder = build_small()
    entry = builder.proto.hlo_module.computations[1]
    builder.add(entry, "negate", [entry.instructions[0]]).id = 2
    expect_error(builder, "two instructions of `entry` have the id 2")


def test_two_computations_with_one_id_are_refused() -> None:
    builder = build_small()
    added = builder.proto.hlo_module.computations.add(name="again", id=1, root_id=8)
    added.instructions.add(name="x", opcode="parameter", id=8)
    expect_error(builder, "two computations have the id 1")


def test_an_id_belongs_to_one_instruction_of_the_whole_module() -> None:
    builder = Builder()
    first = builder.add(builder.computation("called"), "parameter")
    second = builder.add(builder.computation("entry"), "parameter")
    second.id = builder.proto.hlo_module.computations[1].root_id = first.id
    expect_error(builder, "`entry` and another computation have an instruction of the same id")


def test_a_missing_root_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.computations[1].root_id = 50
    expect_error(builder, "`entry` refers to instruction 50")


def test_a_missing_entry_computation_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.entry_computation_id = 40
    expect_error(builder, "the entry computation `entry` is missing")


def test_the_sequence_follows_the_schedule_and_not_the_list() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    first, second = builder.add(entry, "negate", [x]), builder.add(entry, "abs", [x])
    builder.schedule(entry, x, second, first)
    module, _ = parse_hlo(builder.bytes())
    assert module.is_scheduled
    assert [i.opcode for i in module.entry.sequence] == ["parameter", "abs", "negate"]


@pytest.mark.parametrize("ids", [[2], [2, 2], [2, 3, 3]])
def test_a_schedule_that_does_not_list_each_instruction_once_is_refused(ids: list[int]) -> None:
    builder = build_small()
    builder.proto.hlo_module.schedule.sequences[2].instruction_ids.extend(ids)
    expect_error(builder, "the schedule of `entry` does not list each of its instructions exactly once")


def test_a_schedule_with_a_missing_instruction_is_refused() -> None:
    builder = build_small()
    builder.proto.hlo_module.schedule.sequences[2].instruction_ids.extend([2, 99])
    expect_error(builder, "`entry` refers to instruction 99")


def test_a_buffer_assignment_for_an_unknown_instruction_is_refused() -> None:
    builder = build_small()
    entry = builder.proto.hlo_module.computations[1]
    builder.define(entry.instructions[0])
    builder.proto.buffer_assignment.logical_buffers[0].defined_at.instruction_id = 70
    expect_error(builder, "the instruction 70, which is not in the module")


def test_an_empty_buffer_assignment_is_accepted() -> None:
    builder = build_small()
    builder.proto.buffer_assignment.SetInParent()
    _, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    assert buffers.slices == ()


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.hlo.pb"
    path.write_bytes(b"\x0a\xff")
    with pytest.raises(ArtifactError, match=r"^`broken\.hlo\.pb`: truncated or not an HloProto$"):
        load_hlo(path)
    with pytest.raises(ArtifactError, match="cannot read"):
        load_hlo(tmp_path / "missing.hlo.pb")


def test_parameters_are_listed_by_their_numbers() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    second = builder.add(entry, "parameter", shape=array(2), parameter_number=1)
    first = builder.add(entry, "parameter", shape=array(1), parameter_number=0)
    module, _ = parse_hlo(builder.bytes())
    assert [p.id for p in module.entry.parameters] == [first.id, second.id]
