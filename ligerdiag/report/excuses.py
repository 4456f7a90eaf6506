"""Findings that do not count against a run: they are allowed, or the case expects them. They stay in every report."""

from collections.abc import Mapping

from ligerdiag.findings import Finding
from ligerdiag.hazards.ld015_schedule_drift import RULE as DRIFT
from ligerdiag.report.model import CaseReport, Status


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
