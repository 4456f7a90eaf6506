"""From verdicts, findings and numbers to one status; findings that do not count against a run."""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.judgement.agreement import compute_disagreements
from ligerdiag.judgement.expectation import compute_allowed_outputs, compute_status
from ligerdiag.judgement.suppressions import Suppressions
from ligerdiag.model.findings import Finding, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.rules.registry import check_measured, find_unsettled
from ligerdiag.rules.rule import Measured
from ligerdiag.rules.schedules.ld015_schedule_drift import RULE as DRIFT


def compute_excuse(case: CaseReport, finding: Finding) -> str:
    """Returns why the finding does not count, one phrase; empty when it does.

    A case's expectation does not cover a drift from a baseline: that counts in a case that is as expected, too.
    """
    if finding.suppressed is not None:
        return finding.suppressed.reason
    if case.status is Status.EXPECTED and finding.rule != DRIFT.id:
        return f"the case expects it: {describe_expectation(case)}"
    return ""


def list_unexcused(case: CaseReport) -> tuple[Finding, ...]:
    """Returns the case's findings that count."""
    return tuple(finding for finding in case.findings if not compute_excuse(case, finding))


def describe_expectation(case: CaseReport) -> str:
    """Such as `hazard`, or `bias stale, * fresh; rules LD001 and LD006`."""
    expected = case.expected
    if isinstance(expected, Mapping):
        words = ", ".join(f"{name} {verdicts}" for name, verdicts in expected.items())
    else:
        words = expected or "nothing"
    if case.expected_rules is None:
        return words
    return f"{words}; rules {', '.join(case.expected_rules) or 'none'}"


_WITHOUT_DOUBT = (Status.CLEAN, Status.EXPECTED, Status.ALLOWED, Status.NOTHING)


def conclude(
    report: CaseReport, suppressions: Suppressions | None = None, recorded: ScheduleFacts | None = None
) -> CaseReport:
    """Returns the report with the findings that numbers add or settle, contradictions, suppressions, and its status.

    suppressions: None allows nothing. recorded: the baseline's entry for it.
    """
    if report.error:
        return report
    measured = Measured(
        outputs=report.outputs,
        findings=report.findings,
        replay=report.replay,
        device=report.device,
        facts=ScheduleFacts(outputs=report.outputs, neighbourhoods=report.neighbourhoods),
        recorded=recorded,
    )
    answers = check_measured(measured)
    findings, failures = answers.findings, (*report.failures, *answers.failures)
    added = (failure.message for failure in answers.failures)
    report = replace(
        report,
        failures=failures,
        coverage=replace(report.coverage, not_covered=(*added, *report.coverage.not_covered)),
    )
    if suppressions is not None:
        findings = suppressions.apply(report.id, findings, report.source_roots)
    allowed = compute_allowed_outputs(report.outputs, findings)
    disagreements = compute_disagreements(report.outputs, findings, report.replay, report.device)
    unsettled = frozenset(failure.rule for failure in failures) | find_unsettled(
        replayed=report.replay is not None and report.replay.state is ReplayState.DONE,
        ran=report.device is not None and not report.device.error,
    )

    def judge(outputs: Mapping[str, Verdict]) -> tuple[Status, str]:
        rules = report.expected_rules
        return compute_status(
            outputs,
            findings,
            report.expected,
            report.coverage,
            expected_rules=rules,
            unsettled=unsettled,
            allowed={name: verdict for name, verdict in allowed.items() if outputs.get(name) is verdict},
        )

    status, mismatch = judge(report.outputs)
    if report.device is not None and report.device.verdicts and status is not Status.UNEXPECTED:
        on_device = {name: Verdict(word) for name, word in report.device.verdicts.items()}
        there, why = judge(on_device)
        if there in (Status.UNEXPECTED, Status.FINDINGS):
            status, mismatch = there, f"on {report.device.device}: {why}" if why else ""
    if failures and status in _WITHOUT_DOUBT:
        status = Status.INCONCLUSIVE
    return replace(
        report,
        status=Status.DISAGREEMENT if disagreements else status,
        findings=findings,
        disagreements=disagreements,
        mismatch=mismatch,
    )
