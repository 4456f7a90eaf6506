"""The exit code of every kind of run, and the precedence between them."""

import pytest

from ligerdiag.cli.exit_codes import MEANINGS, ExitCode, FailOn, compute_case_code, compute_exit_code, render_table
from ligerdiag.ending import Ending
from ligerdiag.model.findings import Attribution, ReplayState, Severity, Verdict
from ligerdiag.model.report import CaseReport, Coverage, Status
from tests.report.samples import make_case, make_device, make_finding, make_numbers, make_replay, make_report

FRESH = {"a": Verdict.FRESH}
RIGHT = make_case("right")
WRONG = make_case("wrong", Status.UNEXPECTED, mismatch="m")
UNSURE = make_case("unsure", Status.INCONCLUSIVE)
WRONG_NUMBERS = make_case(
    "wrong numbers",
    Status.INCONCLUSIVE,
    expected=None,
    outputs={"a": Verdict.UNKNOWN, "b": Verdict.FRESH},
    replay=make_replay({"a": make_numbers(Attribution.NEITHER, error=0.5), "b": make_numbers(Attribution.FRESH)}),
)
BROKEN = make_case("broken", Status.ERROR, error="aborted", error_exit_code=3)
MISTAKEN = make_case("mistaken", Status.ERROR, error="no such axis", error_exit_code=2)
REPLAY_DIED = make_case("died", replay=make_replay(state=ReplayState.FAILED, reason="aborted"))
RUN_DIED = make_case("crashed", device=make_device(outputs={}, verdicts={}, error="aborted", died=True))
NOT_RUN = make_case("needs 8", device=make_device(outputs={}, verdicts={}, error="needs 8 GPUs"))
NOT_REPLAYED = make_case("large", replay=make_replay(state=ReplayState.TOO_LARGE, reason="estimated 100 s"))
DISAGREEING = make_case("disagreeing", Status.DISAGREEMENT, expected="hazard")
NOTHING = make_case("nothing", Status.NOTHING, expected=None, outputs=FRESH, coverage=Coverage(instructions=10))
CURED = make_case("cured", Status.NOTHING, expected=None, outputs=FRESH, coverage=Coverage(instructions=10, kernels=1))
UNSEEN = make_case("unseen", Status.NOT_CHECKED, outputs={}, error="the run was ended")
CLEAN = make_case("clean", Status.CLEAN, expected=None, outputs=FRESH)


def warned(severity: Severity) -> CaseReport:
    findings = (make_finding(severity=severity),)
    return make_case("found", Status.FINDINGS, expected=None, outputs=FRESH, findings=findings)


@pytest.mark.parametrize(
    ("cases", "code"),
    [
        ((RIGHT,), 0),
        ((CLEAN,), 0),
        ((RIGHT, NOTHING), 0),
        ((WRONG,), 1),
        ((warned(Severity.ERROR),), 1),
        ((MISTAKEN,), 2),
        ((BROKEN,), 3),
        ((make_case("broken", Status.ERROR),), 3),
        ((DISAGREEING,), 3),
        ((REPLAY_DIED, WRONG), 3),
        ((NOT_REPLAYED,), 0),
        ((RUN_DIED, WRONG), 3),
        ((NOT_RUN,), 0),
        ((RIGHT, DISAGREEING, WRONG), 3),
        ((DISAGREEING, MISTAKEN), 2),
        ((UNSURE,), 4),
        ((), 5),
        ((NOTHING, NOTHING), 5),
        ((NOTHING, CURED), 0),  # its kernel declares its writes, and the declaration was checked
        ((RIGHT, WRONG, UNSURE), 1),
        ((WRONG, UNSURE, BROKEN), 3),
        ((WRONG, UNSURE, BROKEN, MISTAKEN), 2),
        ((NOTHING, UNSURE), 4),
    ],
)
def test_a_run_has_the_exit_code_of_its_most_severe_result(cases: tuple[CaseReport, ...], code: int) -> None:
    assert compute_exit_code(make_report(*cases), fail_on=FailOn.WARNING, strict=True) == code


def test_inconclusive_fails_only_a_strict_run() -> None:
    assert compute_exit_code(make_report(UNSURE), fail_on=FailOn.WARNING, strict=False) == 0


def test_an_interrupted_run_exits_with_130_whatever_the_findings() -> None:
    report = make_report(WRONG, BROKEN, interrupted=True)
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=True) == 130


def test_a_terminated_run_exits_with_143_whatever_the_findings() -> None:
    report = make_report(WRONG, MISTAKEN, UNSEEN, interrupted=True, ended_by=Ending.TERMINATE)
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=True) == 143


@pytest.mark.parametrize(
    ("cases", "code"), [((RIGHT, UNSEEN), 3), ((WRONG, UNSEEN), 3), ((RIGHT,), 3), ((MISTAKEN,), 2)]
)
def test_a_case_left_unknown_by_a_time_limit_is_never_clean(cases: tuple[CaseReport, ...], code: int) -> None:
    report = make_report(*cases, interrupted=True, ended_by=Ending.TIME_LIMIT)
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=False) == code


@pytest.mark.parametrize(
    ("cases", "code"), [((WRONG, UNSEEN), 1), ((BROKEN, UNSEEN), 3), ((MISTAKEN, UNSEEN), 2), ((UNSEEN,), 1)]
)
def test_a_run_that_stops_at_a_case_has_the_exit_code_of_that_case(cases: tuple[CaseReport, ...], code: int) -> None:
    report = make_report(*cases, interrupted=True, ended_by=Ending.EXIT_FIRST)
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=False) == code


@pytest.mark.parametrize(
    ("case", "strict", "code"),
    [
        (RIGHT, True, 0),
        (NOTHING, True, 0),
        (UNSEEN, True, 0),
        (UNSURE, False, 0),
        (UNSURE, True, 4),
        (WRONG_NUMBERS, False, 4),
        (WRONG, False, 1),
        (warned(Severity.WARNING), False, 1),
        (warned(Severity.NOTE), True, 0),
        (DISAGREEING, False, 3),
        (MISTAKEN, False, 2),
    ],
)
def test_a_case_alone_has_an_exit_code(case: CaseReport, strict: bool, code: int) -> None:
    assert compute_case_code(case, fail_on=FailOn.WARNING, strict=strict) == code


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        (Severity.ERROR, FailOn.ERROR, 1),
        (Severity.WARNING, FailOn.ERROR, 0),
        (Severity.WARNING, FailOn.WARNING, 1),
        (Severity.NOTE, FailOn.WARNING, 0),
        (Severity.NOTE, FailOn.NOTE, 1),
        (Severity.ERROR, FailOn.NEVER, 0),
    ],
)
def test_unexpected_findings_fail_from_the_given_severity_up(severity: Severity, fail_on: FailOn, code: int) -> None:
    assert compute_exit_code(make_report(warned(severity)), fail_on=fail_on, strict=False) == code


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        (Verdict.STALE, FailOn.ERROR, 1),
        (Verdict.CLOBBERED, FailOn.ERROR, 1),
        (Verdict.LATENT, FailOn.ERROR, 0),
        (Verdict.LATENT, FailOn.WARNING, 1),
        (Verdict.STALE, FailOn.NEVER, 0),
    ],
)
def test_a_bad_verdict_that_no_finding_explains_fails_too(verdict: Verdict, fail_on: FailOn, code: int) -> None:
    case = make_case(status=Status.FINDINGS, expected=None, outputs={"a": verdict})
    assert compute_exit_code(make_report(case), fail_on=fail_on, strict=False) == code


def test_findings_of_an_expected_hazard_do_not_fail() -> None:
    case = make_case(findings=(make_finding(),))
    assert compute_exit_code(make_report(case), fail_on=FailOn.NOTE, strict=True) == 0


def test_a_mismatch_fails_even_if_findings_never_fail() -> None:
    assert compute_exit_code(make_report(WRONG), fail_on=FailOn.NEVER, strict=False) == 1


def test_the_table_lists_every_exit_code() -> None:
    assert set(MEANINGS) == set(ExitCode)
    codes = [int(line.split()[0]) for line in render_table().splitlines() if line[:5].strip()]
    assert codes == [0, 1, 2, 3, 4, 5, 130, 143]


@pytest.mark.parametrize(
    ("expected", "verdicts", "code"),
    [
        ("fresh", (Verdict.UNKNOWN, Verdict.UNKNOWN), ExitCode.INCONCLUSIVE),
        ("hazard", (Verdict.UNKNOWN, Verdict.UNKNOWN), ExitCode.INCONCLUSIVE),
        ("fresh", (Verdict.UNKNOWN, Verdict.FRESH), ExitCode.AS_EXPECTED),
        (None, (Verdict.UNKNOWN, Verdict.UNKNOWN), ExitCode.AS_EXPECTED),
    ],
)
def test_an_expectation_is_not_met_if_every_output_is_unknown(
    expected: str | None, verdicts: tuple[Verdict, ...], code: ExitCode
) -> None:
    outputs = dict(zip("ab", verdicts, strict=True))
    case = make_case("unsure", Status.INCONCLUSIVE, expected=expected, outputs=outputs)
    report = make_report(case, make_case("sure", Status.EXPECTED))
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=False) is code
