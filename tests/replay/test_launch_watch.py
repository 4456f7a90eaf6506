"""Observations of a launch: unwritten elements, races, accesses out of bounds."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.replay.conftest import BLOCK, ROWS, draw
from tests.replay.interpreted_kernels import run


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.bool_])
def test_elements_that_a_kernel_leaves_unwritten_are_counted(dtype: Any) -> None:
    x = draw().astype(dtype)
    _, (out,), (seen,) = run("half_kernel", [x], [np.zeros_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK})
    assert seen.unwritten == {0: (x.size // 2, x.size)}
    assert np.array_equal(out[::2], x[::2])
    assert dtype is not np.bool_ or set(out.view(np.uint8).tolist()) <= {0, 1}


def test_an_element_into_which_the_kernel_wrote_the_canary_is_not_unwritten() -> None:
    x = np.full(BLOCK, 0xA5, np.uint8)
    _, (out,), (seen,) = run("convert_kernel", [x], [np.zeros_like(x)], grid=(1,), constants={"BLOCK": BLOCK})
    assert np.array_equal(out, x)
    assert seen.unwritten == {}
    *_, (half,) = run("half_kernel", [x], [x], grid=(1,), constants={"BLOCK": BLOCK})
    assert half.unwritten == {0: (BLOCK // 2, BLOCK)}
    *_, (unsure,) = run("convert_kernel", [x], [x], grid=(1,), constants={"BLOCK": BLOCK}, runner={"checks": 0})
    assert (unsure.unwritten, unsure.checked) == ({}, 0)


def test_a_zeroed_output_is_zeroed_and_not_watched() -> None:
    x = draw()
    _, (out,), (seen,) = run(
        "half_kernel", [x], [np.ones_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK}, zeroed=(0,)
    )
    assert seen.unwritten == {}
    assert not out[1::2].any()


def test_a_kernel_that_reads_its_neighbours_row_in_place_is_racing() -> None:
    x = draw()
    constants = {"BLOCK": BLOCK, "ROWS": ROWS}
    (out, *_), _, (seen,) = run("neighbour_kernel", [x], [x], grid=(ROWS,), share={0: 0}, constants=constants)
    rows = x.reshape(ROWS, BLOCK)
    wanted = rows + np.roll(rows, -1, axis=0)
    assert np.array_equal(out.reshape(ROWS, BLOCK)[:-1], wanted[:-1])
    assert seen.racing.keys() == {0}
    # run backwards, every row but one is another sum
    assert 0.1 < seen.racing[0] <= 2
    *_, (apart,) = run("neighbour_kernel", [x], [x], grid=(ROWS,), constants=constants)
    assert apart.racing == {}


def test_a_kernel_that_overwrites_only_its_own_elements_is_safe() -> None:
    x = draw()
    for kernel in ("convert_kernel", "through_operand_kernel"):
        *_, (seen,) = run(kernel, [x], [x], grid=(1,), share={0: 0}, constants={"BLOCK": ROWS * BLOCK})
        assert seen.checked == 1
        assert seen.racing == {}


def test_a_write_through_the_operand_is_not_evidence_about_another_alias() -> None:
    x = draw()
    *_, (seen,) = run("both_ways_kernel", [x, x], [x, x], grid=(ROWS,), share={0: 0, 1: 1}, constants={"BLOCK": BLOCK})
    assert seen.checked == 1
    assert seen.racing == {}


def test_a_kernel_that_reads_its_own_stores_differs_on_unshared_bytes() -> None:
    x = draw()
    *_, (seen,) = run("twice_over_kernel", [x], [x], grid=(ROWS,), share={0: 0}, constants={"BLOCK": BLOCK})
    assert seen.racing.keys() == {0}


def test_a_race_through_an_undeclared_write_is_found_too() -> None:
    x = draw()
    *_, (seen,) = run(
        "neighbour_through_operand_kernel", [x], [np.zeros(ROWS, np.float32)], grid=(ROWS,),
        constants={"BLOCK": BLOCK, "ROWS": ROWS},
    )  # fmt: skip
    assert seen.racing.keys() == {0}


@pytest.mark.parametrize("check_seconds", [0.5, 0.0])
def test_a_kernel_that_reads_another_programs_writes_depends_on_their_order(check_seconds: float) -> None:
    x = draw()
    *_, (seen,) = run(
        "running_kernel", [x], [x], grid=(ROWS,), constants={"BLOCK": BLOCK}, runner={"check_seconds": check_seconds}
    )
    assert seen.racing == {}
    assert 0.1 < seen.order_difference <= 2
    first = seen.meetings[0]
    assert (first.buffer, first.other_buffer, first.bytes) == (1, 1, 4 * BLOCK)
    assert (first.other, first.first_byte) == (first.writer + 1, first.writer * 4 * BLOCK)
    assert not first.other_writes
    assert seen.operands == 1


def test_programs_that_all_write_the_same_do_not_depend_on_their_order() -> None:
    x = draw()
    *_, (seen,) = run("everyone_kernel", [x], [x], grid=(ROWS,), constants={"BLOCK": BLOCK})
    assert (seen.order_difference, seen.meetings) == (0.0, ())


def test_accesses_out_of_bounds_are_recorded_once_per_operation() -> None:
    x = draw()
    *_, (seen,) = run("past_kernel", [x], [x], grid=(ROWS,), constants={"BLOCK": BLOCK}, times=3)
    load, store = sorted(seen.outside, key=lambda one: one.kind)
    assert (load.kind, load.buffer, load.first_byte, load.elements, load.program) == ("load", 0, x.nbytes, 1, ROWS - 1)
    assert (store.kind, store.buffer, store.first_byte, store.elements, store.program) == ("store", 1, -4, 1, 0)
    assert {load.size, store.size} == {x.nbytes}
    assert seen.launches == 3


def test_the_rounding_of_atomic_additions_is_not_a_race() -> None:
    x, total = draw(64), np.array([0.125], np.float32)
    *_, (seen,) = run("total_kernel", [x, total], [], grid=(64,), constants={"BLOCK": BLOCK})
    assert seen.racing == {}
    assert seen.checked == 1


def test_only_the_first_launches_of_a_call_are_checked() -> None:
    x = draw()
    keywords: Any = {"grid": (ROWS,), "constants": {"BLOCK": BLOCK}, "times": 5}
    *_, (seen,) = run("double_kernel", [x], [x], runner={"checks": 3}, **keywords)
    assert (seen.launches, seen.checked) == (5, 3)
    *_, (dear,) = run("double_kernel", [x], [x], runner={"check_seconds": 0.0}, **keywords)
    assert (dear.launches, dear.checked) == (5, 0)
    *_, nothing = run("double_kernel", [x], [x], watched=False, **keywords)
    assert nothing == ()
