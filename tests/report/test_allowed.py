"""The effect of a suppression on status, exit code and report."""

import json
from collections.abc import Mapping

import pytest

from ligerdiag.api import conclude
from ligerdiag.cli.exit_codes import FailOn, compute_exit_code
from ligerdiag.errors import CompileError
from ligerdiag.model.findings import Attribution, Finding, Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Identity, Status, UnusedSuppression, refuse
from ligerdiag.report.allowed.suppressions import ConfigEntry, Suppressions
from ligerdiag.report.json import render_json
from ligerdiag.report.status import compute_allowed_outputs, compute_status
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.rules.registry import RULES, get_rule
from tests.report.samples import (
    make_case,
    make_device,
    make_finding,
    make_judged,
    make_numbers,
    make_replay,
    make_report,
)

REASON = Suppression(kind=SuppressionKind.IN_CODE, reason="the reader only logs", where="train.py:40")
ANALYSED = Coverage(hidden_writes=1)
DOUBTFUL = Coverage(hidden_writes=1, not_covered=("a loop",))


def found(rule: str, *outputs: str, allowed: bool = True, **changes: object) -> Finding:
    severity = Severity.WARNING if rule in ("LD003", "LD006", "LD014") else Severity.ERROR
    fields: dict[str, object] = {"rule": rule, "outputs": outputs, "severity": severity}
    return make_finding(**{**fields, "suppressed": REASON if allowed else None, **changes})


STALE, LATENT, UNKNOWN, FRESH = Verdict.STALE, Verdict.LATENT, Verdict.UNKNOWN, Verdict.FRESH


def test_a_question_to_the_author_does_not_change_the_status() -> None:
    note = found("LD035", allowed=False, severity=Severity.NOTE)
    assert compute_status({"a": FRESH}, (note,), None, ANALYSED) == (Status.CLEAN, "")
    assert compute_status({"a": FRESH}, (note, found("LD006")), None, ANALYSED) == (Status.ALLOWED, "")
    assert compute_status({"a": LATENT}, (note,), None, ANALYSED) == (Status.FINDINGS, "")
    case = make_case(status=Status.CLEAN, expected=None, outputs={"a": FRESH}, findings=(note,), coverage=ANALYSED)
    codes = [compute_exit_code(make_report(case), fail_on=one, strict=True) for one in (FailOn.WARNING, FailOn.NOTE)]
    assert codes == [0, 1]


@pytest.mark.parametrize(
    ("outputs", "findings", "coverage", "status"),
    [
        ({"a": LATENT}, (found("LD003", "a"),), ANALYSED, Status.ALLOWED),
        ({"a": LATENT}, (found("LD003", "a", allowed=False),), ANALYSED, Status.FINDINGS),
        ({"a": STALE}, (found("LD001", "a"),), ANALYSED, Status.ALLOWED),
        ({"a": STALE}, (found("LD001", "a"), found("LD002", "a")), ANALYSED, Status.ALLOWED),
        ({"a": STALE}, (found("LD001", "a"), found("LD002", "a", allowed=False)), ANALYSED, Status.FINDINGS),
        ({"a": STALE, "b": STALE}, (found("LD001", "a"),), ANALYSED, Status.FINDINGS),
        ({"a": Verdict.CLOBBERED}, (found("LD004", "a"),), ANALYSED, Status.ALLOWED),
        ({"a": STALE}, (found("LD006", "a"),), ANALYSED, Status.FINDINGS),
        ({"a": STALE}, (found("LD003", "a"),), ANALYSED, Status.FINDINGS),
        ({"a": LATENT}, (found("LD006", "a"),), ANALYSED, Status.FINDINGS),
        ({"a": STALE}, (), ANALYSED, Status.FINDINGS),
        ({"a": FRESH}, (found("LD006"),), ANALYSED, Status.ALLOWED),
        ({"a": FRESH}, (found("LD006"), found("LD009", allowed=False)), ANALYSED, Status.FINDINGS),
        ({"a": LATENT}, (found("LD003", "a"),), DOUBTFUL, Status.INCONCLUSIVE),
        ({"a": LATENT, "b": UNKNOWN}, (found("LD003", "a"),), ANALYSED, Status.INCONCLUSIVE),
        ({"a": UNKNOWN}, (found("LD014", "a"),), ANALYSED, Status.INCONCLUSIVE),
        ({"a": FRESH}, (found("LD014"),), ANALYSED, Status.INCONCLUSIVE),
        ({"a": STALE}, (found("LD001", "a"), found("LD014", "a")), ANALYSED, Status.INCONCLUSIVE),
        ({"a": FRESH}, (found("LD014", allowed=False),), ANALYSED, Status.FINDINGS),
    ],
)
def test_allowed_findings_decide_the_status_without_an_expectation(
    outputs: Mapping[str, Verdict], findings: tuple[Finding, ...], coverage: Coverage, status: Status
) -> None:
    assert compute_status(outputs, findings, None, coverage) == (status, "")
    case = make_case(status=status, expected=None, outputs=outputs, findings=findings, coverage=coverage)
    for fail_on in (FailOn.WARNING, FailOn.NOTE):
        code = compute_exit_code(make_report(case), fail_on=fail_on, strict=False)
        assert code == (1 if status is Status.FINDINGS else 0)


@pytest.mark.parametrize(
    ("expected", "rules", "status"),
    [
        ("hazard", None, Status.EXPECTED),
        ({"a": "latent"}, ("LD003",), Status.EXPECTED),
        ("fresh", None, Status.UNEXPECTED),
        ({"a": "latent"}, (), Status.UNEXPECTED),
    ],
)
def test_an_expectation_is_compared_with_everything(
    expected: object, rules: tuple[str, ...] | None, status: Status
) -> None:
    findings = (found("LD003", "a"),)
    assert compute_status({"a": LATENT}, findings, expected, ANALYSED, expected_rules=rules)[0] is status  # type: ignore[arg-type]


KNOWN = ConfigEntry(rule="LD001", reason="known", where="pyproject.toml number 1")


def conclude_stale(attribution: Attribution) -> CaseReport:
    """Returns a case with an allowed stale output, and numbers that confirm it."""
    findings = (found("LD001", "a", allowed=False),)
    judged = make_judged(expected=None, outputs={"a": STALE}, findings=findings, coverage=ANALYSED)
    concluded = conclude(judged, Suppressions((KNOWN,)), replay=make_replay({"a": make_numbers(attribution)}))
    assert concluded.findings[0].suppressed is not None
    return concluded


def test_a_disagreement_cannot_be_allowed() -> None:
    assert conclude_stale(Attribution.FRESH).status is Status.DISAGREEMENT


def test_a_replay_that_confirms_an_allowed_verdict_changes_nothing() -> None:
    assert conclude_stale(Attribution.STALE).status is Status.ALLOWED


def test_a_case_that_could_not_be_analysed_keeps_that_status() -> None:
    case = conclude(refuse(Identity(id="a", target="h100"), CompileError("aborted")), Suppressions((KNOWN,)))
    assert (case.status, case.error, case.findings) == (Status.ERROR, "aborted", ())


@pytest.mark.parametrize(("there", "status"), [("latent", Status.ALLOWED), ("stale", Status.FINDINGS)])
def test_a_device_s_own_verdict_is_allowed_only_if_it_is_the_same(there: str, status: Status) -> None:
    device = make_device(outputs={}, verdicts={"a": there})
    findings = (found("LD003", "a", allowed=False),)
    judged = make_judged(expected=None, outputs={"a": LATENT}, findings=findings, coverage=ANALYSED)
    entry = ConfigEntry(rule="LD003", reason="only logged", where="pyproject.toml number 1")
    concluded = conclude(judged, Suppressions((entry,)), device=device)
    assert concluded.status is status
    code = compute_exit_code(make_report(concluded), fail_on=FailOn.WARNING, strict=True)
    assert code == (1 if status is Status.FINDINGS else 0)


def test_these_rules_explain_these_verdicts() -> None:
    explained = {rule.id: rule.explains for rule in RULES if rule.explains not in (None, UNKNOWN)}
    assert explained == {
        "LD001": STALE,
        "LD002": STALE,
        "LD003": LATENT,
        "LD004": Verdict.CLOBBERED,
        "LD007": STALE,
        "LD022": STALE,
        "LD023": STALE,
        "LD024": Verdict.CLOBBERED,
    }
    assert get_rule("LD014").explains is UNKNOWN


def test_only_verdicts_that_a_finding_explains_are_allowed() -> None:
    outputs = {"a": LATENT, "b": STALE, "c": FRESH, "d": UNKNOWN, "e": LATENT}
    findings = (found("LD003", "a", "b", "c", "e"), found("LD014", "d"), found("LD003", "e", allowed=False))
    assert compute_allowed_outputs(outputs, findings) == {"a": LATENT}


def make_allowed(*cases: str) -> CheckReport:
    findings = (found("LD003", "a", message="`a` is right only because"), found("LD006", "a", allowed=False))
    unused = UnusedSuppression(
        kind=SuppressionKind.CONFIG, rule="LD012", reason="r", where="pyproject.toml number 2", message="is not used"
    )
    return make_report(
        *(
            make_case(case_id, Status.FINDINGS, expected=None, outputs={"a": LATENT, "b": FRESH}, findings=findings)
            for case_id in cases
        ),
        unused_suppressions=(unused,),
    )


def test_a_terminal_counts_allowed_findings_and_lists_them_with_verbose() -> None:
    report = make_allowed("one", "two")
    text = render_terminal(report)
    assert "a latent (allowed) · b fresh" in text
    assert "warning[LD006]" in text
    assert "LD003]" not in text
    assert "allowed: 2 findings of LD003, each with a reason: -v lists them" in text
    assert "suppression pyproject.toml number 2: `allow LD012` is not used" in text
    told = render_terminal(report, verbose=True)
    assert told.count("allowed: LD003 `a` is right only because") == 1
    assert "reason: the reader only logs\n   by:     train.py:40\n   in:     one, two\n" in told


def test_allowed_findings_of_an_expected_case_are_not_listed() -> None:
    case = make_case(outputs={"a": LATENT}, findings=(found("LD003", "a"), found("LD006", allowed=False)))
    text = render_terminal(make_report(case))
    assert "warning[LD006]" in text
    assert "warning[LD003]" not in text


def test_json_has_suppressions_and_unused_ones() -> None:
    top = json.loads(render_json(make_allowed("one")))
    allowed, counted = top["cases"][0]["findings"]
    assert allowed["suppressed"] == {"kind": "in code", "reason": "the reader only logs", "where": "train.py:40"}
    assert counted["suppressed"] is None
    assert top["unused_suppressions"] == [
        {"kind": "config", "rule": "LD012", "reason": "r", "where": "pyproject.toml number 2", "message": "is not used"}
    ]


def test_an_unused_suppression_fails_a_strict_run_only() -> None:
    report = make_report(make_case(), unused_suppressions=make_allowed().unused_suppressions)
    assert compute_exit_code(report, fail_on=FailOn.WARNING, strict=False) == 0
    assert compute_exit_code(report, fail_on=FailOn.NEVER, strict=True) == 1
