"""Programs of a launch: shared bytes, accesses out of bounds, orders, and endless divergence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.triton_ir.interpreter import run_grid
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome
from tests.replay.triton_ir import hand_kernels, op_kernels
from tests.replay.triton_ir.op_launches import LAUNCHES
from tests.replay.triton_ir.oracle import Launch
from tests.replay.triton_ir.run import build_launch, run_launch

FILE = Path(hand_kernels.__file__)


def run(
    kernel: str,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    constants: dict[str, Any] | None = None,
    options: GridOptions | None = None,
    **arguments: Any,
) -> tuple[dict[str, Any], GridOutcome]:
    launch = Launch(kernel=kernel, arguments=arguments, constants=constants or {}, grid=grid)
    return run_launch(FILE, launch, options=options)


def run_in_place(
    kernel: str, array: Any, grid: tuple[int, int, int], options: GridOptions, **constants: Any
) -> GridOutcome:
    """x and o are the same bytes."""
    launch = Launch(kernel=kernel, arguments={"x": array, "o": array}, constants=constants, grid=grid)
    module, entry = build_launch(FILE, launch)
    return run_grid(module, entry, [array, array.view()], grid, options=options)


def test_programs_with_disjoint_bytes_do_not_meet() -> None:
    x = np.arange(32, dtype=np.float32)
    found, outcome = run("neighbour", x=x, o=np.zeros(32, np.float32), grid=(4, 1, 1), constants={"ROWS": 4, "N": 8})
    rows = x.reshape(4, 8)
    np.testing.assert_array_equal(found["o"].reshape(4, 8), rows + np.roll(rows, -1, axis=0))
    assert outcome.meeting is None
    assert outcome.meetings_known
    assert not outcome.sequential_programs


@pytest.mark.parametrize("batch_bytes", [1, 70, 1 << 20])
@pytest.mark.parametrize("order", ["grid", "reverse"])
def test_a_kernel_that_reads_its_neighbour_s_row_in_place_meets_its_write(batch_bytes: int, order: Any) -> None:
    x = np.arange(32, dtype=np.float32)
    rows = x.copy().reshape(4, 8)
    outcome = run_in_place("neighbour", x, (4, 1, 1), GridOptions(batch_bytes=batch_bytes, order=order), ROWS=4, N=8)
    for row in range(4) if order == "grid" else range(3, -1, -1):
        rows[row] += rows[(row + 1) % 4]
    np.testing.assert_array_equal(x.reshape(4, 8), rows)
    assert outcome.meeting is not None
    meeting = outcome.meeting[0]
    assert {(one.writer, one.other) for one in outcome.meeting} == {(1, 0), (2, 1), (3, 2), (0, 3)}
    assert (meeting.argument, meeting.other_argument, meeting.other_writes) == (1, 0, False)
    assert (meeting.first_byte, meeting.bytes) == (32 * meeting.writer, 32)
    assert meeting.place is not None
    assert meeting.other_place is not None
    assert meeting.place.line > meeting.other_place.line


def test_programs_between_each_others_bytes_do_not_meet() -> None:
    x = np.arange(64, dtype=np.float32)
    found, outcome = run("columns", x=x, grid=(4, 1, 1), constants={"N": 16, "M": 4})
    np.testing.assert_array_equal(found["x"], x * 2)
    assert outcome.meeting is None
    assert not outcome.sequential_programs


@pytest.mark.parametrize(("order", "last"), [("grid", 6), ("reverse", 0)])
def test_programs_that_store_to_one_place_meet(order: Any, last: int) -> None:
    found, outcome = run("everybody", o=np.zeros(1, np.int32), grid=(7, 1, 1), options=GridOptions(order=order))
    assert found["o"][0] == last
    assert outcome.meeting is not None
    assert outcome.meeting[0].other_writes


def test_a_subset_of_the_programs_can_run() -> None:
    found, _ = run("everybody", o=np.zeros(1, np.int32), grid=(7, 1, 1), options=GridOptions(programs=[2, 5, 4]))
    assert found["o"][0] == 4


def test_a_lock_is_taken_in_turn() -> None:
    x, o = np.arange(24, dtype=np.float32), np.zeros(8, np.float32)
    found, outcome = run("locked", x=x, lock=np.zeros(1, np.int32), o=o, grid=(3, 1, 1), constants={"N": 8})
    wanted = np.zeros(8, np.float32)
    for row in x.reshape(3, 8):
        wanted = wanted * 2 + row
    np.testing.assert_array_equal(found["o"], wanted)
    assert outcome.used_atomics
    assert outcome.sequential_programs == 3


def test_a_program_that_waits_forever_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match="waits for another"):
        run("stuck", lock=np.ones(1, np.int32))


def test_a_loop_without_end_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match="iterations"):
        run("endless", x=np.ones(1, np.int32), options=GridOptions(most_rounds=1000))


def test_the_last_program_reads_the_stores_of_all() -> None:
    _, outcome = run_launch(Path(op_kernels.__file__), LAUNCHES["last_program"])
    assert outcome.sequential_programs == 5
    assert outcome.meeting is not None


def test_atomics_alone_do_not_meet() -> None:
    _, outcome = run_launch(Path(op_kernels.__file__), LAUNCHES["atomics"])
    assert outcome.used_atomics
    assert outcome.meeting is None
    assert not outcome.sequential_programs


def test_accesses_past_the_end_are_recorded() -> None:
    x, o = np.arange(10, dtype=np.float32), np.zeros(12, np.float32)
    found, outcome = run("past_the_end", x=x, o=o, n=13, grid=(4, 1, 1), constants={"N": 4})
    np.testing.assert_array_equal(found["o"], [*range(10), 0, 0])
    load, store = sorted(outcome.out_of_bounds, key=lambda one: one.kind)
    assert (load.argument, load.kind, load.first_byte, load.width, load.count, load.program) == (0, "load", 40, 4, 6, 2)
    assert (store.argument, store.kind, store.first_byte, store.count, store.program) == (1, "store", 48, 1, 3)
    assert load.place is not None
    assert store.place is not None
    assert load.place.line < store.place.line


def test_accesses_before_the_start_are_recorded() -> None:
    found, outcome = run("before_the_start", o=np.full(8, -7, np.int32), grid=(2, 1, 1), constants={"N": 4})
    assert found["o"].tolist() == [0, 1, 2, 3, 4, -7, -7, -7]
    (one,) = outcome.out_of_bounds
    assert (one.argument, one.kind, one.first_byte, one.count, one.program) == (0, "store", -12, 3, 0)


def test_unsigned_bounds_of_a_loop_are_compared_unsigned() -> None:
    found, _ = run("unsigned_loop", o=np.zeros(1, np.int32), first=np.uint32(2**32 - 5), last=np.uint32(2**32 - 2))
    assert found["o"][0] == 3


@pytest.mark.parametrize("grid", [(-1, 1, 1), (2**30, 2**10, 1)])
def test_absurd_grids_are_refused(grid: tuple[int, int, int]) -> None:
    launch = Launch(kernel="everybody", arguments={"o": np.zeros(1, np.int32)})
    module, entry = build_launch(FILE, launch)
    with pytest.raises(NotCoveredError, match="grid"):
        run_grid(module, entry, [np.zeros(1, np.int32)], grid)


def test_an_empty_grid_runs_no_program() -> None:
    launch = Launch(kernel="everybody", arguments={"o": np.zeros(1, np.int32)})
    module, entry = build_launch(FILE, launch)
    o = np.full(1, 7, np.int32)
    run_grid(module, entry, [o], (4, 0, 1))
    assert o[0] == 7


def test_a_lock_is_taken_in_turn_without_a_search_for_meetings() -> None:
    x, o = np.arange(24, dtype=np.float32), np.zeros(8, np.float32)
    options = GridOptions(records_meetings=False)
    found, outcome = run(
        "locked", x=x, lock=np.zeros(1, np.int32), o=o, grid=(3, 1, 1), constants={"N": 8}, options=options
    )
    wanted = np.zeros(8, np.float32)
    for row in x.reshape(3, 8):
        wanted = wanted * 2 + row
    np.testing.assert_array_equal(found["o"], wanted)
    assert not outcome.meetings_known


def test_two_arguments_may_share_part_of_their_memory() -> None:
    """o begins one row after x."""
    memory = np.arange(40, dtype=np.float32)
    before = memory.copy()
    launch = Launch(
        kernel="neighbour", arguments={"x": memory[:32], "o": memory[8:]}, constants={"ROWS": 4, "N": 8}, grid=(4, 1, 1)
    )
    module, entry = build_launch(FILE, launch)
    outcome = run_grid(module, entry, [memory[:32], memory[8:]], (4, 1, 1))
    rows = before.reshape(5, 8)
    for row in range(4):
        rows[row + 1] = rows[row] + rows[(row + 1) % 4]
    np.testing.assert_array_equal(memory.reshape(5, 8), rows)
    assert outcome.meeting is not None
