"""How verdicts and numbers become a status: a contradiction between them outweighs the expectation."""

from dataclasses import replace

import pytest

from ligerdiag.api import conclude
from ligerdiag.cli.exit_codes import FailOn, compute_exit_code
from ligerdiag.errors import CompileError
from ligerdiag.model.findings import Attribution, OpaqueReplay, Replay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, Identity, Status, leave_undone, refuse
from ligerdiag.report.terminal.full_report import render_terminal
from tests.report.samples import make_device, make_judged, make_numbers, make_refused, make_replay, make_report

OUTPUTS = {"w": Verdict.STALE, "loss": Verdict.FRESH}
STALE = {"w": make_numbers(Attribution.STALE), "loss": make_numbers()}
CONTRARY = {"w": make_numbers(), "loss": make_numbers()}


def judge(expected: object, replay: Replay | None) -> CaseReport:
    return conclude(make_judged(outputs=OUTPUTS, expected=expected), replay=replay)


def code_of(case: CaseReport) -> int:
    return compute_exit_code(make_report(case), fail_on=FailOn.NEVER, strict=False)


def test_numbers_that_agree_leave_the_status_to_the_expectation() -> None:
    case = judge("hazard", make_replay(STALE))
    assert (case.status, case.disagreements, code_of(case)) == (Status.EXPECTED, (), 0)


@pytest.mark.parametrize("expected", [None, "fresh", "hazard", {"w": "stale"}])
def test_a_disagreement_exits_with_3_whatever_was_expected(expected: object) -> None:
    case = judge(expected, make_replay(CONTRARY))
    assert case.status is Status.DISAGREEMENT
    assert [one.output for one in case.disagreements] == ["w"]
    assert code_of(case) == 3


def test_a_mismatch_is_still_reported_beside_a_disagreement() -> None:
    case = judge({"w": "fresh"}, make_replay(CONTRARY))
    assert case.mismatch == "expected `w` fresh but it is stale"


def test_a_case_without_a_replay_keeps_its_status() -> None:
    refused = make_refused(ReplayState.TOO_LARGE, "42 s")
    for replay in (None, refused):
        assert judge("hazard", replay).status is Status.EXPECTED


def test_a_replay_with_opaque_functions_that_died_leaves_doubt_as_any_other_does() -> None:
    dead = OpaqueReplay(state=ReplayState.FAILED, reason="the worker was aborted")
    for replay in (replace(make_replay(STALE), opaque=dead), Replay(state=ReplayState.NOT_COVERED, opaque=dead)):
        case = judge("hazard", replay)
        assert case.status is Status.INCONCLUSIVE
        assert "the worker was aborted" in render_terminal(make_report(case))
    assert judge("hazard", replace(make_replay(STALE), opaque=None)).status is Status.EXPECTED


def test_a_case_that_could_not_be_analysed_keeps_that_status() -> None:
    case = conclude(refuse(Identity(id="a", target="h100"), CompileError("aborted", "the log")))
    assert (case.status, case.error, case.error_exit_code, case.log_tail) == (Status.ERROR, "aborted", 3, "the log")
    assert conclude(leave_undone(Identity(id="a", target="h100"), "ended")).status is Status.NOT_CHECKED


def on_device(expected: object) -> CaseReport:
    """A case that is fresh in the schedule for the described GPU, and stale in the device's own schedule."""
    fresh = {"input": Verdict.FRESH, "loss": Verdict.FRESH}
    return conclude(make_judged(outputs=fresh, expected=expected), device=make_device())


def test_a_device_with_another_schedule_can_be_the_only_stale_one() -> None:
    case = on_device("fresh")
    assert (case.status, case.disagreements) == (Status.UNEXPECTED, ())
    assert case.mismatch == "on NVIDIA H200: expected `input` fresh but it is stale"
    assert code_of(case) == 1


def test_without_an_expectation_a_stale_device_is_a_finding_that_fails_the_run() -> None:
    case = on_device(None)
    assert case.status is Status.FINDINGS
    assert compute_exit_code(make_report(case), fail_on=FailOn.ERROR, strict=False) == 1
    text = render_terminal(make_report(case), verbose=True)
    assert "agrees, 1 STALE" in text
    assert "device stale 1.3e+04, STALE by its own schedule" in text


def test_a_device_that_differs_from_the_reference_is_undecided_without_a_replay() -> None:
    fresh = {"input": Verdict.FRESH, "loss": Verdict.FRESH}
    alone = make_device(
        verdicts={"input": "fresh", "loss": "fresh"}, intended_from="reference (replay was not asked for)"
    )
    case = conclude(make_judged(outputs=fresh, expected="fresh"), device=alone)
    assert (case.status, case.disagreements) == (Status.INCONCLUSIVE, ())
    assert case.coverage is not None
    assert "only a replay can show" in case.coverage.not_covered[0]
