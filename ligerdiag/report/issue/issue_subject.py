"""Chooses the subject of a bug report: the worst finding of the only case with findings, or the error with which XLA ended.

A report is about one bug. Findings about drifts, budgets and unknown effects, and questions to the author, are no bugs. A
finding that a suppression allows is not reported. If the schedule and the numbers contradict each other, it is not known yet
whose bug it is.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding
from ligerdiag.model.report import CaseReport, CheckReport, Noun, Status
from ligerdiag.report.causes import compute_causes, list_rules
from ligerdiag.report.status import list_counted
from ligerdiag.report.terminal.case_table import STATUS_TEXTS
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import BEYOND_EXPECTATION, RuleKind
from ligerdiag.source_text import compute_near
from ligerdiag.text import join_words

_NO_BUGS = frozenset(
    rule for kind in (*BEYOND_EXPECTATION, RuleKind.QUESTION, RuleKind.UNKNOWN_EFFECT) for rule in list_ids(kind)
)
_ROOTS = frozenset(list_ids(RuleKind.HIDDEN_WRITE))
_XLA_FAILED = 3
"""`CaseReport.error_exit_code` of a program that could not be compiled."""
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueSubject:
    """The case that a bug report is about, and its finding."""

    case: CaseReport
    finding: Finding | None
    """The worst finding of the case, with all findings that have the same cause as its `parts`; None for an error."""


def find_issue_subject(report: CheckReport, rule: str = "") -> IssueSubject:
    """Returns the case and the finding that a bug report on this run is about.

    It is the most severe finding; with `rule`, the id of a rule, it is a finding of that rule. Raises InputError if no
    case has anything to report, or if several cases have.
    """
    found = [one for case in report.cases if (one := _find_in_case(case, rule)) is not None]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"there is nothing to report: {_explain_nothing(report)}")
    commands = [f"`{_render_command(one.case, report)}`" for one in found[:_FEW]]
    rest = [f"one of {len(found) - _FEW} more"] if len(found) > _FEW else []
    raise InputError(
        f"a bug report is about one case on one target, and {len(found)} have something to report: run"
        f" {join_words([*commands, *rest], 'or')}"
    )


def _render_command(case: CaseReport, report: CheckReport) -> str:
    """Returns the command that makes the bug report on this case alone."""
    if report.noun is not Noun.CASE:
        return shlex.join(["ligerdiag", "inspect", "PATH", "--module", case.id, "--format", "issue"])
    selector = f"{compute_near(case.source)}::{case.id}" if case.source else case.id
    target = ["--target", case.target] if len(report.targets) > 1 else []
    return shlex.join(["ligerdiag", "check", selector, *target, "--format", "issue"])


def _find_in_case(case: CaseReport, rule: str) -> IssueSubject | None:
    if case.status is Status.ERROR and case.error_exit_code == _XLA_FAILED:
        return IssueSubject(case=case, finding=None)
    if case.disagreements:
        return None
    causes = [
        one
        for one in compute_causes(list_counted(case.findings), tuple(case.outputs), case.source_roots)
        if one.rule not in _NO_BUGS
    ]
    causes = [one for one in causes if rule in list_rules(one)] or causes
    return IssueSubject(case=case, finding=min(causes, key=lambda one: _rank(one, case))) if causes else None


def _rank(cause: Finding, case: CaseReport) -> tuple[int, bool, bool, bool, int]:
    """Returns a sort key that is smaller for a worse cause: its severity first, then whether it follows from another one,
    whether it makes an output wrong, and whether it is more than an undeclared write.
    """
    is_wrong = any(case.outputs[name].is_wrong for name in cause.outputs if name in case.outputs)
    follows = cause.follows_from is not None
    return -cause.severity.weight, follows, not is_wrong, cause.rule in _ROOTS, -len(cause.outputs)


def _explain_nothing(report: CheckReport) -> str:
    if not report.cases:
        of_a_dump = "; ".join(report.notes[:_FEW]) if report.noun is not Noun.CASE else ""
        return of_a_dump or "no case was selected"
    said = [_explain(case) for case in report.cases[:_FEW]]
    rest = [f"{len(report.cases) - _FEW} more cases"] if len(report.cases) > _FEW else []
    return "; ".join((*said, *rest))


def _explain(case: CaseReport) -> str:
    name = f"`{case.id}` on {case.target}"
    if case.error:
        return f"{name} could not be analysed: {case.error}"
    if case.disagreements:
        return (
            f"in {name} the schedule and the numbers contradict each other, and it is not known which of the two is right: "
            "`ligerdiag check` lists the possible causes"
        )
    allowed = [one for one in case.findings if one.suppressed is not None]
    others = _list_rules([one for one in case.findings if one.rule in _NO_BUGS and one.suppressed is None])
    if allowed:
        return f"every finding of {name} is allowed ({_list_rules(allowed)})"
    if others:
        return f"{name} has only findings that are not bugs ({others})"
    return f"{name} has no finding ({STATUS_TEXTS[case.status]})"


def _list_rules(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(one.rule for one in findings))
