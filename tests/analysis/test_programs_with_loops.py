"""Verdicts on programs with a kernel in a loop, each with the reason why it is the truth."""

import pytest

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_NOT_SEE, MUST_SEE, Seen, find_kernels, look


def test_a_write_of_an_earlier_iteration_does_not_hide_a_missing_one(loops: Programs) -> None:
    # XLA merges `late` with `early`: one read, before the kernel. In every iteration but the first it sees a write, just
    # not the one that it should
    program = loops["carried_hides_missing"]
    assert look(program, "early") is Seen.BEFORE
    assert program.verdicts == {"early": "latent", "late": "stale", "sums": "fresh"}


def test_a_kernel_on_a_value_from_outside_the_loop_is_followed_round_the_loop(loops: Programs) -> None:
    # the reader must see this iteration's write; a schedule that puts it before the kernel gives it the previous one's
    program = loops["closed_over"]
    assert program.verdicts == {"total": "fresh", "late": MUST_SEE[look(program, "late")]}


def test_readers_in_a_loop_body_are_told_apart(loops: Programs) -> None:
    # each row's logits are a value of their own: nothing is carried but the total, which holds a stale part
    assert loops["mixed_in_body"].verdicts == {"total": "stale", "missed": "stale", "seen": "fresh"}


def test_a_stale_part_is_found_when_the_kernel_overwrites_what_a_loop_returned(loops: Programs) -> None:
    assert loops["mixed_over_loop_result"].verdicts == {"seen": "fresh", "norm": "stale"}


def test_a_reader_behind_the_loop_sees_the_write_in_it(loops: Programs) -> None:
    # the loop's result is complete before anything behind the loop runs
    assert loops["write_inside_read_behind"].verdicts == {"back": "fresh", "sums": "fresh"}


@pytest.mark.parametrize("case", ["forced_in_body", "nested", "unrolled", "while_loop"])
def test_a_loop_that_carries_forced_reads_only_is_fresh(loops: Programs, case: str) -> None:
    # whoever reads the overwritten value multiplies it with what the kernel returns
    assert set(loops[case].verdicts.values()) == {"fresh"}


def test_what_is_computed_from_a_stale_carry_is_stale(loops: Programs) -> None:
    # `carry` misses every write; the next iteration's value is made from it, and so all that is made from that
    assert loops["nested_missing"].verdicts == {"carry": "stale", "sums": "stale", "seen": "stale"}


def test_an_unrolled_body_holds_two_kernels_each_with_its_readers(loops: Programs) -> None:
    program = loops["unrolled_missing"]
    assert len(find_kernels(program)) == 2
    assert program.verdicts == {"total": "stale", "seen": "fresh"}


def test_a_loop_of_one_iteration_is_inlined_and_still_judged(loops: Programs) -> None:
    program = loops["single_iteration_missing"]
    assert not any(i.opcode == "while" for i in program.optimized.entry.instructions)
    assert program.verdicts == {"half": MUST_SEE[look(program, "half")], "sums": "fresh"}


def test_nothing_is_carried_round_a_loop_of_one_iteration(loops: Programs) -> None:
    # the sums are of x @ w, as written and as compiled: there is no earlier iteration whose write they could miss
    assert set(loops["single_iteration"].verdicts.values()) == {"fresh"}


def test_the_original_is_wanted_in_the_loop_by_who_reads_before_the_kernel(loops: Programs) -> None:
    program = loops["carried_hides_missing"]
    assert program.verdicts["early"] == MUST_NOT_SEE[look(program, "early")]


def test_a_loop_that_may_not_run_returns_what_it_was_given(loops: Programs) -> None:
    assert loops["perhaps_no_iteration"].verdicts == {"h": "fresh", "step": "fresh"}


def test_a_loop_that_surely_runs_and_does_not_read_its_state_returns_nothing_of_what_it_was_given(
    loops: Programs,
) -> None:
    assert loops["unread_state"].verdicts == {"last": "fresh", "sums": "fresh"}
