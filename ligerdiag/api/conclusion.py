"""From verdicts, findings and numbers to one status."""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.findings import Verdict
from ligerdiag.hazards.measured import Measured
from ligerdiag.hazards.registry import check_measured, find_unsettled
from ligerdiag.neighbourhood import ScheduleFacts
from ligerdiag.outcomes import ReplayState
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.allowed import compute_allowed_outputs
from ligerdiag.report.expectation import compute_status
from ligerdiag.report.model import CaseReport, Status
from ligerdiag.suppressions.suppressions import Suppressions

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
