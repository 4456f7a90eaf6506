"""Verdicts on programs with a kernel in a branch, in an inner jit, under autodiff, each with the reason."""

import pytest

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_SEE, look


def test_a_kernel_in_one_branch_overwrites_what_the_branch_was_given(calls: Programs) -> None:
    # a conditional's branch gets the value itself, as written and as compiled. `seen` needs the conditional's result;
    # `late` does not, and happens to be scheduled behind the conditional
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


def test_each_call_of_an_inner_jit_has_a_write_of_its_own(calls: Programs) -> None:
    # `cross` is made of the first call's fresh read and the second call's stale one
    program = calls["inner_jit_twice"]
    assert program.inspection.coverage.hidden_writes == 2
    assert program.verdicts == {"seen": "fresh", "again": "fresh", "missed": "stale", "cross": "stale"}


@pytest.mark.parametrize("case", ["residual", "residual_inner_jit"])
def test_a_residual_that_the_kernel_overwrote_is_clobbered(calls: Programs, case: str) -> None:
    # the derivative of h * v by v is h as it was; it is fused with the sums that the kernel returns, so it reads too late
    verdicts = calls[case].verdicts
    assert verdicts["gradient"] == "clobbered"
    assert verdicts["sums"] == "fresh"


def test_a_backward_rule_reads_what_its_author_wrote(calls: Programs) -> None:
    # custom_vjp hands h on to be read after the kernel, on purpose: not a residual that autodiff saved
    program = calls["own_backward_rule"]
    assert program.verdicts == {"loss": "fresh", "gradient": MUST_SEE[look(program, "backward")]}


def test_a_backward_rule_that_misses_the_write_is_stale(calls: Programs) -> None:
    # the gradient is cast to bf16: XLA hands out the bf16 logits
    assert calls["own_backward_rule_missing"].verdicts == {"loss": "fresh", "gradient": "stale"}


def test_one_branchs_write_is_not_seen_by_the_other(calls: Programs) -> None:
    # only one of them runs
    assert calls["branch_in_the_other_order"].verdicts == {"found": "fresh"}


def test_a_derivative_of_what_stands_behind_the_kernel_wants_what_it_left(calls: Programs) -> None:
    # h * v reads h after the kernel, and so does its derivative, fused with what the kernel returns
    verdicts = calls["derivative_behind_the_kernel"].verdicts
    assert (verdicts["sums"], verdicts["gradient"]) == ("fresh", "fresh")
