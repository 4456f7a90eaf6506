"""The storage of values in modules that XLA compiled: all names of a value agree on it."""

from collections.abc import Iterator

import pytest

from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import iterate_leaves
from tests.analysis.compiled import Program
from tests.hlo.conftest import Programs


def iterate_scheduled(program: Program) -> Iterator[tuple[HloComputation, HloInstruction]]:
    for computation in program.optimized.computations.values():
        for instruction in computation.sequence:
            yield computation, instruction


def list_all(*folders: Programs) -> list[Program]:
    return [program for folder in folders for program in folder.values()]


def test_every_scheduled_array_has_storage(loops: Programs, calls: Programs, meshes: Programs) -> None:
    for program in list_all(loops, calls, meshes):
        for _, instruction in iterate_scheduled(program):
            if not instruction.opcode.endswith("-start"):  # their contexts have no storage
                assert None not in program.positions.locate(instruction), instruction.name


def test_the_initial_state_and_the_result_of_a_loop_share_their_bytes(loops: Programs) -> None:
    found = 0
    for program in loops.values():
        for _, loop in iterate_scheduled(program):
            if loop.opcode != "while":
                continue
            found += 1
            body = program.optimized.computations[loop.called_computations[0]]
            places = program.positions.locate(loop)
            assert program.positions.locate(loop.operands[0]) == places
            assert program.positions.locate(body.parameters[0]) == places
            assert program.positions.locate(body.root) == places
    assert found >= 8


def test_a_branch_returns_its_result_in_the_bytes_of_the_conditional(calls: Programs) -> None:
    found = 0
    for program in calls.values():
        for _, conditional in iterate_scheduled(program):
            if conditional.opcode != "conditional":
                continue
            found += 1
            for callee, operand in zip(conditional.called_computations, conditional.operands[1:], strict=True):
                computation = program.optimized.computations[callee]
                assert program.positions.locate(computation.root) == program.positions.locate(conditional)
                assert program.positions.locate(computation.parameters[0]) == program.positions.locate(operand)
    assert found >= 2


def test_an_async_done_has_the_bytes_of_the_called_computation(loops: Programs, meshes: Programs) -> None:
    found = 0
    for program in list_all(loops, meshes):
        for _, done in iterate_scheduled(program):
            if done.opcode != "async-done":
                continue
            found += 1
            callee = program.optimized.computations[done.operands[0].called_computations[0]]
            assert program.positions.locate(done) == program.positions.locate(callee.root)
    assert found >= 4


@pytest.mark.parametrize("case", ["nested", "mixed_in_body", "while_loop"])
def test_slices_are_as_large_as_their_arrays(loops: Programs, case: str) -> None:
    program = loops[case]
    for _, instruction in iterate_scheduled(program):
        if instruction.opcode != "fusion" or len(list(iterate_leaves(instruction.shape))) > 1:
            continue
        (place,) = program.positions.locate(instruction)
        assert place is not None
        size = 4
        for dimension in instruction.shape.dimensions:
            size *= dimension
        if instruction.shape.element_type == 11:  # f32
            assert program.buffers.slices[place].size == size


def test_the_schedule_keeps_operands_before_users(loops: Programs, calls: Programs, meshes: Programs) -> None:
    for program in list_all(loops, calls, meshes):
        for computation in program.optimized.computations.values():
            times = {i.id: n for n, i in enumerate(computation.sequence)}
            for instruction in computation.sequence:
                for operand in instruction.operands:
                    assert times[operand.id] < times[instruction.id]
                for predecessor in instruction.control_predecessors:
                    assert times[predecessor] < times[instruction.id]


def test_an_entry_parameter_has_its_own_allocation(loops: Programs) -> None:
    for program in loops.values():
        for parameter in program.optimized.entry.parameters:
            (place,) = program.positions.locate(parameter)
            assert place is not None
            allocation = program.buffers.slices[place].allocation
            assert program.buffers.parameters[allocation] == (parameter.proto.parameter_number, ())
