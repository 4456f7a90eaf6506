"""Verdicts on programs with a kernel in a branch, in an inner jit or under autodiff; each test gives the reason."""

import pytest

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_SEE, classify_read


def test_a_kernel_in_a_branch_overwrites_the_operand_of_the_conditional(calls: Programs) -> None:
    # in the program and in the schedule, the branch gets the value itself. `seen` needs the conditional's result;
    # `late` does not, and happens to be scheduled after the conditional
    program = calls["branch"]
    entry = program.optimized.entry.sequence
    times = {i.opcode if i.opcode == "conditional" else i.op_name: n for n, i in enumerate(entry)}
    late = next(time for name, time in times.items() if "/late/" in name)
    assert program.verdicts == {
        "sums": "fresh",
        "seen": "fresh",
        "late": "latent" if late > times["conditional"] else "stale",
    }


def test_a_stale_part_is_found_inside_a_branch(calls: Programs) -> None:
    assert calls["branch_missing"].verdicts == {"norm": "stale", "seen": "fresh"}


def test_each_call_of_an_inner_jit_has_its_own_write(calls: Programs) -> None:
    # `cross` combines the fresh read of the first call with the stale one of the second
    program = calls["inner_jit_twice"]
    assert program.inspection.coverage.hidden_writes == 2
    assert program.verdicts == {"seen": "fresh", "again": "fresh", "missed": "stale", "cross": "stale"}


@pytest.mark.parametrize("case", ["residual", "residual_inner_jit"])
def test_a_residual_that_the_kernel_overwrote_is_clobbered(calls: Programs, case: str) -> None:
    # the derivative of h * v by v is the old h; it is fused with the sums that the kernel returns, so it reads too late
    verdicts = calls[case].verdicts
    assert verdicts["gradient"] == "clobbered"
    assert verdicts["sums"] == "fresh"


def test_a_backward_rule_of_the_author_may_read_after_the_kernel(calls: Programs) -> None:
    # custom_vjp saves h on purpose to read it after the kernel; it is not a residual of autodiff
    program = calls["own_backward_rule"]
    assert program.verdicts == {"loss": "fresh", "gradient": MUST_SEE[classify_read(program, "backward")]}


def test_a_backward_rule_that_misses_the_write_is_stale(calls: Programs) -> None:
    # the gradient is cast to bf16: XLA returns the bf16 logits
    assert calls["own_backward_rule_missing"].verdicts == {"loss": "fresh", "gradient": "stale"}


def test_a_branch_does_not_see_the_write_of_the_other(calls: Programs) -> None:
    # only one of them runs
    assert calls["branch_in_the_other_order"].verdicts == {"found": "fresh"}


def test_the_derivative_of_an_operation_after_the_kernel_needs_what_the_kernel_left(calls: Programs) -> None:
    # h * v reads h after the kernel, and so does its derivative, fused with what the kernel returns
    verdicts = calls["derivative_behind_the_kernel"].verdicts
    assert (verdicts["sums"], verdicts["gradient"]) == ("fresh", "fresh")
