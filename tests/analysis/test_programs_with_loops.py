"""Verdicts on programs with a kernel in a loop; each test gives the reason."""

import pytest

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_NOT_SEE, MUST_SEE, Seen, classify_read, find_kernels


def test_a_write_of_an_earlier_iteration_does_not_hide_a_missing_one(loops: Programs) -> None:
    # XLA merges `late` with `early`: one read, before the kernel. In every iteration but the first it sees a write, but
    # not the right one
    program = loops["carried_hides_missing"]
    assert classify_read(program, "early") is Seen.BEFORE
    assert program.verdicts == {"early": "latent", "late": "stale", "sums": "fresh"}


def test_a_kernel_on_a_value_from_outside_the_loop_is_followed_around_the_loop(loops: Programs) -> None:
    # the reader must see this iteration's write; a schedule that puts it before the kernel gives it the previous one's
    program = loops["closed_over"]
    assert program.verdicts == {"total": "fresh", "late": MUST_SEE[classify_read(program, "late")]}


def test_readers_in_a_loop_body_are_judged_separately(loops: Programs) -> None:
    # the logits of each row are a separate value: only the total is carried, and it has a stale part
    assert loops["mixed_in_body"].verdicts == {"total": "stale", "missed": "stale", "seen": "fresh"}


def test_a_stale_part_is_found_if_the_kernel_overwrites_the_result_of_a_loop(loops: Programs) -> None:
    assert loops["mixed_over_loop_result"].verdicts == {"seen": "fresh", "norm": "stale"}


def test_a_reader_after_the_loop_sees_the_write_in_the_loop(loops: Programs) -> None:
    # the loop's result is complete before anything after the loop runs
    assert loops["write_inside_read_behind"].verdicts == {"back": "fresh", "sums": "fresh"}


@pytest.mark.parametrize("case", ["forced_in_body", "nested", "unrolled", "while_loop"])
def test_a_loop_that_carries_only_forced_reads_is_fresh(loops: Programs, case: str) -> None:
    # each reader multiplies the overwritten value with what the kernel returns
    assert set(loops[case].verdicts.values()) == {"fresh"}


def test_everything_computed_from_a_stale_carry_is_stale(loops: Programs) -> None:
    # `carry` misses every write, and the next iteration computes its value from it
    assert loops["nested_missing"].verdicts == {"carry": "stale", "sums": "stale", "seen": "stale"}


def test_an_unrolled_body_holds_two_kernels_each_with_its_readers(loops: Programs) -> None:
    program = loops["unrolled_missing"]
    assert len(find_kernels(program)) == 2
    assert program.verdicts == {"total": "stale", "seen": "fresh"}


def test_a_loop_of_one_iteration_is_inlined_and_still_judged(loops: Programs) -> None:
    program = loops["single_iteration_missing"]
    assert not any(i.opcode == "while" for i in program.optimized.entry.instructions)
    assert program.verdicts == {"half": MUST_SEE[classify_read(program, "half")], "sums": "fresh"}


def test_nothing_is_carried_around_a_loop_of_one_iteration(loops: Programs) -> None:
    # in the program and in the schedule the sums are those of x @ w: they can miss no write of an earlier iteration
    assert set(loops["single_iteration"].verdicts.values()) == {"fresh"}


def test_a_reader_before_the_kernel_in_a_loop_needs_the_original(loops: Programs) -> None:
    program = loops["carried_hides_missing"]
    assert program.verdicts["early"] == MUST_NOT_SEE[classify_read(program, "early")]


def test_a_loop_that_may_not_run_can_return_its_initial_state(loops: Programs) -> None:
    assert loops["perhaps_no_iteration"].verdicts == {"h": "fresh", "step": "fresh"}


def test_a_loop_that_surely_runs_and_ignores_its_state_returns_nothing_of_its_initial_state(
    loops: Programs,
) -> None:
    assert loops["unread_state"].verdicts == {"last": "fresh", "sums": "fresh"}


@pytest.mark.parametrize("case", ["equal_loops", "equal_branches"])
def test_equal_loops_and_branches_on_two_values_have_their_own_verdicts(loops: Programs, case: str) -> None:
    # XLA makes their bodies one computation, with the tags of the first; every reader waits for its own kernel
    program = loops[case]
    assert program.verdicts == {"first": "fresh", "second": "fresh", "z": "fresh"}
    assert not {one.rule for one in program.inspection.findings} & {"LD007", "LD008"}
