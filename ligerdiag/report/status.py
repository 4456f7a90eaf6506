"""From verdicts, findings and numbers to one status; findings that do not count against a run.

Every report of a case is made here, once it has its status.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ligerdiag.model.findings import DeviceRun, Finding, Replay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, Inspection, Judged, Refusal, Status
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.report.agreement import compute_disagreements, explain_unknown_order, list_explained, raise_shown
from ligerdiag.report.disagreement_causes import note_differences
from ligerdiag.report.expectation import compute_allowed_outputs, compute_status
from ligerdiag.report.suppressions import Suppressions
from ligerdiag.report.undefined import doubt_outputs, doubt_view
from ligerdiag.rules.registry import check_measured, find_unsettled, list_ids
from ligerdiag.rules.rule import Measured, RuleKind


def compute_excuse(case: CaseReport, finding: Finding) -> str:
    """Returns why the finding does not count, one phrase; empty when it does.

    A case's expectation does not cover a drift from a baseline: that counts in a case that is as expected, too.
    """
    if finding.suppressed is not None:
        return finding.suppressed.reason
    if case.status is Status.EXPECTED and finding.rule not in list_ids(RuleKind.DRIFT):
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
    judged: Judged,
    suppressions: Suppressions | None = None,
    *,
    replay: Replay | None = None,
    device: DeviceRun | None = None,
    recorded: ScheduleFacts | None = None,
    source_roots: tuple[str, ...] = (),
) -> CaseReport:
    """Returns the report: findings with those that numbers add or settle, contradictions, suppressions, and the status.

    suppressions: None allows nothing. recorded: the baseline's entry for it. source_roots: as in `CaseReport`.
    """
    match judged.result:
        case Refusal() as refusal:
            return _describe_refusal(judged, refusal, source_roots)
        case Inspection() as inspection:
            facts = ScheduleFacts(outputs=inspection.outputs, neighbourhoods=inspection.neighbourhoods)
            measured = Measured(
                outputs=inspection.outputs,
                findings=inspection.findings,
                replay=replay,
                device=device,
                facts=facts,
                recorded=recorded,
            )
            return _conclude(judged, inspection, measured, suppressions, source_roots)


def _describe_refusal(judged: Judged, refusal: Refusal, source_roots: tuple[str, ...]) -> CaseReport:
    return CaseReport(
        **_identify(judged),
        status=Status.NOT_CHECKED if refusal.is_undone else Status.ERROR,
        source_roots=source_roots,
        error=refusal.error,
        error_exit_code=refusal.exit_code,
        log_tail=refusal.log_tail,
    )


def _conclude(
    judged: Judged,
    inspection: Inspection,
    measured: Measured,
    suppressions: Suppressions | None,
    source_roots: tuple[str, ...],
) -> CaseReport:
    identity, replay, device = judged.identity, measured.replay, measured.device
    answers = check_measured(measured)
    findings, failures = raise_shown(answers.findings, replay), (*inspection.failures, *answers.failures)
    added = (failure.message for failure in answers.failures)
    open_questions = explain_unknown_order(device)
    coverage = replace(inspection.coverage, not_covered=(*added, *open_questions, *inspection.coverage.not_covered))
    if suppressions is not None:
        findings = suppressions.apply(identity.id, findings, source_roots)
    outputs = doubt_outputs(inspection.outputs, findings)
    allowed = compute_allowed_outputs(outputs, findings)
    failed = [failure.rule for failure in failures]
    disagreements = compute_disagreements(outputs, findings, replay, device, failed)
    explained = list_explained(outputs, findings, replay, device)
    findings = note_differences(findings, explained)
    unsettled = frozenset(failure.rule for failure in failures) | find_unsettled(
        replayed=replay is not None and replay.state is ReplayState.DONE, ran=device is not None and not device.error
    )

    def judge(outputs: Mapping[str, Verdict]) -> tuple[Status, str]:
        return compute_status(
            outputs,
            findings,
            identity.expected,
            coverage,
            expected_rules=identity.expected_rules,
            unsettled=unsettled,
            allowed={name: verdict for name, verdict in allowed.items() if outputs.get(name) is verdict},
        )

    status, mismatch = judge(outputs)
    if device is not None and device.verdicts and status is not Status.UNEXPECTED:
        there, why = judge({name: Verdict(word) for name, word in device.verdicts.items()})
        if there in (Status.UNEXPECTED, Status.FINDINGS):
            status, mismatch = there, f"on {device.device}: {why}" if why else ""
    surprising = [one for one, rules in explained if set(rules).isdisjoint(identity.expected_rules or ())]
    if surprising and status in _WITHOUT_DOUBT:
        status, mismatch = Status.UNEXPECTED, "; ".join(one.message for one in surprising)
    if failures and status in _WITHOUT_DOUBT:
        status = Status.INCONCLUSIVE
    return CaseReport(
        **_identify(judged),
        status=Status.DISAGREEMENT if disagreements else status,
        source_roots=source_roots,
        outputs=outputs,
        findings=findings,
        failures=failures,
        coverage=coverage,
        replay=replay,
        device=device,
        disagreements=disagreements,
        mismatch=mismatch,
        neighbourhoods=inspection.neighbourhoods,
        view=doubt_view(inspection.view, findings),
    )


def _identify(judged: Judged) -> dict[str, Any]:
    """Returns the fields of a report that name it, and what it cost."""
    identity = {field.name: getattr(judged.identity, field.name) for field in fields(judged.identity)}
    return {**identity, "seconds": judged.seconds, "cached": judged.cached}
