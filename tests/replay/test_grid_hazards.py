"""Kernels in many forms: do their results depend on the order of programs, and do they access memory out of bounds?"""

from typing import Any

import numpy as np
import pytest

from ligerdiag.effects.call import parse_configurations
from ligerdiag.effects.effects_worker import parse_effects, render_effects
from ligerdiag.effects.kernel_effects import compute_kernel_effects
from ligerdiag.model.findings import LaunchNumbers, MemoryOperation, OutsideAccess
from tests.replay import grid_kernels
from tests.replay.interpreted_kernels import make_call, run

BLOCK, SIZE = 16, 56
"""Elements; the last of four blocks is half full."""
PROGRAMS = 4
CONSTANTS = {"BLOCK": BLOCK}
TINY = 1e-5


def draw(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).normal(size=size).astype(np.float32)


def watch(kernel: str, operands: Any, outputs: Any, **fields: Any) -> LaunchNumbers:
    """Returns the findings of replay, which include the accesses that the launch alone proves to be out of bounds."""
    fields = {"grid": (PROGRAMS,), "constants": CONSTANTS, **fields}
    *_, (seen,) = run(f"{grid_kernels.__name__}.{kernel}", operands, outputs, **fields)
    fields.pop("share", None)
    proven = prove_outside(kernel, operands, outputs, **fields)
    for number, one in proven:
        (same,) = (x for x in seen.outside if (x.kind, x.buffer, x.line) == (one.kind, number, one.line))
        assert (same.program, same.first_byte, same.size, same.width) == (
            one.program,
            one.first_byte,
            one.size,
            one.width,
        )
        assert one.elements <= same.elements
    return seen


def prove_outside(kernel: str, operands: Any, outputs: Any, **fields: Any) -> list[tuple[int, OutsideAccess]]:
    """Returns (buffer, access) of the accesses that are out of bounds for any data."""
    call = make_call(f"{grid_kernels.__name__}.{kernel}", operands, outputs, **fields)
    effects = compute_kernel_effects(
        parse_configurations(call.proto.custom_call_target, call.proto.backend_config),
        operands=len(operands),
        outputs=len(outputs),
        sizes=[buffer.nbytes for buffer in (*operands, *outputs)],
    )
    sent = parse_effects(render_effects(effects).encode(), operands=len(operands), outputs=len(outputs))
    assert sent == effects
    uses = (*effects.operand_uses, *effects.output_uses)
    return [(number, one) for number, use in enumerate(uses) for one in use.outside]


def list_outside(seen: LaunchNumbers) -> set[tuple[str, int | None, int, int, int]]:
    """Returns the accesses as (kind, buffer, first index, elements, program)."""
    return {
        (one.kind.value, one.buffer, one.first_byte // one.width, one.elements, one.program) for one in seen.outside
    }


@pytest.mark.parametrize("kernel", ["copy_kernel", "stencil_kernel"])
def test_a_masked_access_is_not_out_of_bounds(kernel: str) -> None:
    seen = watch(kernel, [draw()], [draw()], scalars={"n": ("i32", SIZE)})
    assert (seen.outside, seen.racing, seen.order_difference) == ((), {}, 0.0)


def test_a_mask_that_is_too_wide_shows_on_the_last_program() -> None:
    seen = watch("copy_kernel", [draw()], [draw()], scalars={"n": ("i32", SIZE + 1)})
    assert list_outside(seen) == {("load", 0, SIZE, 1, 3), ("store", 1, SIZE, 1, 3)}


def test_a_grid_that_is_one_block_too_long_is_reported() -> None:
    x = draw(BLOCK * PROGRAMS)
    seen = watch("copy_kernel", [x], [x], grid=(PROGRAMS + 1,), scalars={"n": ("i32", 2 * x.size)})
    assert list_outside(seen) == {("load", 0, x.size, BLOCK, PROGRAMS), ("store", 1, x.size, BLOCK, PROGRAMS)}


def test_only_accesses_to_the_buffer_that_is_too_short_are_out_of_bounds() -> None:
    seen = watch("copy_kernel", [draw()], [draw(SIZE - 3)], scalars={"n": ("i32", SIZE)})
    assert list_outside(seen) == {("store", 1, SIZE - 3, 3, 3)}


@pytest.mark.parametrize("checked", [True, False])
def test_block_pointers_are_checked_against_their_shape(checked: bool) -> None:
    constants = {**CONSTANTS, "CHECKED": checked}
    seen = watch("block_pointer_kernel", [draw()], [draw()], constants=constants, scalars={"n": ("i32", SIZE)})
    outside = {("load", 0, SIZE, 8, 3), ("store", 1, SIZE, 8, 3)}
    assert list_outside(seen) == (set() if checked else outside)


@pytest.mark.parametrize("rows", [PROGRAMS, PROGRAMS + 1])
def test_descriptors_are_checked_against_their_own_shape(rows: int) -> None:
    x = draw(BLOCK * PROGRAMS)
    seen = watch("descriptor_kernel", [x], [x], grid=(PROGRAMS + 1,), scalars={"n": ("i32", rows)})
    outside = {("load", 0, x.size, BLOCK, PROGRAMS), ("store", 1, x.size, BLOCK, PROGRAMS)}
    assert list_outside(seen) == (set() if rows == PROGRAMS else outside)


def test_a_stencil_in_place_is_reported_as_a_race_only() -> None:
    seen = watch("stencil_kernel", [draw()], [draw()], share={0: 0}, scalars={"n": ("i32", SIZE)})
    assert seen.racing[0] > 0.1
    assert seen.order_difference == 0.0


@pytest.mark.parametrize("programs", [PROGRAMS, 40])
@pytest.mark.parametrize(("moves", "racing"), [(0, False), (1, True)])
def test_another_dependence_on_the_order_is_reported_besides_the_operand_s_race(
    moves: int, racing: bool, programs: int
) -> None:
    x = draw(BLOCK * programs)
    constants = {**CONSTANTS, "MOVES": moves, "FIRST": programs // 2}
    seen = watch(
        "stencil_and_running_kernel",
        [x],
        [x],
        grid=(programs,),
        constants=constants,
        scalars={"n": ("i32", x.size)},
    )
    assert (seen.racing.get(0, 0.0) > TINY) is racing
    assert seen.order_difference > 0.1
    assert {(one.buffer, one.other_buffer) for one in seen.meetings} == {(1, 1)}


def test_atomic_sums_do_not_depend_on_the_order() -> None:
    seen = watch("split_kernel", [draw(64)], [np.zeros(BLOCK, np.float32)], zeroed=(0,))
    assert (seen.racing, seen.order_difference, seen.meetings, seen.outside) == ({}, 0.0, (), ())


@pytest.mark.parametrize(("factor", "differs"), [(1, False), (2, True)])
def test_a_lock_is_reported_only_if_the_order_changes_the_result(factor: int, differs: bool) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(BLOCK, np.float32)
    constants = {**CONSTANTS, "FACTOR": factor}
    seen = watch("lock_kernel", [draw(64)], [lock, total], constants=constants, zeroed=(0, 1))
    assert seen.racing == {}
    assert (seen.order_difference > TINY) is differs
    assert bool(seen.meetings) is differs


def test_the_program_that_comes_last_may_add_up_for_all() -> None:
    parts, count, total = np.zeros(PROGRAMS, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    constants = {**CONSTANTS, "PROGRAMS": PROGRAMS}
    seen = watch("last_program_kernel", [draw(64)], [parts, count, total], constants=constants, zeroed=(0, 1, 2))
    assert (seen.racing, seen.outside) == ({}, ())
    assert seen.order_difference <= TINY


def test_equal_values_make_no_difference() -> None:
    x = draw(BLOCK * PROGRAMS + 1)
    seen = watch("equal_kernel", [x], [x])
    assert (seen.order_difference, seen.meetings, seen.outside) == (0.0, (), ())


def test_an_index_that_wraps_is_before_the_buffer() -> None:
    constants = {**CONSTANTS, "STRIDE": 1 << 30}
    seen = watch("far_kernel", [draw(BLOCK)], [draw(64)], grid=(3,), constants=constants, scalars={"n": ("i32", BLOCK)})
    assert list_outside(seen) == {("load", 0, -(1 << 31), BLOCK, 2)}


@pytest.mark.parametrize("masked", [True, False])
def test_rows_in_wider_blocks_are_checked(masked: bool) -> None:
    constants = {"COLUMNS": 12, "BLOCK": 16, "MASKED": masked}
    seen = watch("padded_kernel", [draw(48)], [draw(48)], constants=constants)
    assert list_outside(seen) == (set() if masked else {("load", 0, 48, 4, 3), ("store", 1, 48, 4, 3)})
    assert (seen.order_difference > 0.1) is not masked


@pytest.mark.parametrize("n", [0, 2])
def test_an_operand_without_elements_is_checked_too(n: int) -> None:
    seen = watch("copy_kernel", [draw(0)], [draw()], grid=(1,), scalars={"n": ("i32", n)})
    assert list_outside(seen) == (set() if n == 0 else {("load", 0, 0, 2, 0)})


@pytest.mark.parametrize(
    ("kernel", "extra", "size", "first", "elements"),
    [
        ("copy_kernel", {}, SIZE + 1, SIZE, 1),
        ("copy_kernel", {}, SIZE, None, 0),
        ("block_pointer_kernel", {"CHECKED": False}, SIZE, SIZE, 8),
        ("block_pointer_kernel", {"CHECKED": True}, SIZE, None, 0),
    ],
)
def test_a_write_out_of_bounds_for_any_data_is_proven(
    kernel: str, extra: dict[str, Any], size: int, first: int | None, elements: int
) -> None:
    found = prove_outside(
        kernel,
        [draw()],
        [draw()],
        grid=(PROGRAMS,),
        constants={**CONSTANTS, **extra},
        scalars={"n": ("i32", size)},
    )
    told = [(number, one.kind, one.first_byte, one.elements, one.program) for number, one in found]
    assert told == ([] if first is None else [(1, MemoryOperation.STORE, 4 * first, elements, PROGRAMS - 1)])


def test_a_load_out_of_bounds_of_an_overwritten_buffer_is_proven() -> None:
    x = draw(BLOCK * PROGRAMS)
    fields: dict[str, Any] = {"grid": (PROGRAMS,), "constants": {**CONSTANTS, "MOVES": 1, "FIRST": 1}}
    found = prove_outside("stencil_and_running_kernel", [x], [x], scalars={"n": ("i32", x.size + 1)}, **fields)
    assert [(number, one.kind, one.first_byte) for number, one in found] == [(0, MemoryOperation.LOAD, x.nbytes)]
