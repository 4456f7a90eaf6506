"""Groups causes that are reported once for many cases, and orders them; allowed ones are reported elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ligerdiag.findings import Finding, Severity
from ligerdiag.report.allowed import list_counted
from ligerdiag.report.causes import compute_causes
from ligerdiag.report.model import CaseReport

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """A cause (see `causes`) and the cases it was met in; its evidence is that of the first."""

    finding: Finding
    cases: tuple[CaseReport, ...]


def compute_shared_groups(cases: Iterable[CaseReport]) -> tuple[FindingGroup, ...]:
    """Causes of all these cases, one group for each rule, message and source line."""
    members: dict[tuple[object, ...], list[CaseReport]] = {}
    first: dict[tuple[object, ...], Finding] = {}
    for case in cases:
        for finding in list_causes(case):
            key = (finding.rule, finding.message, finding.source)
            first.setdefault(key, finding)
            met_in = members.setdefault(key, [])
            if not met_in or met_in[-1] is not case:
                met_in.append(case)
    groups = [FindingGroup(finding=first[key], cases=tuple(met_in)) for key, met_in in members.items()]
    return tuple(sorted(groups, key=_weight))


def compute_single_groups(cases: Iterable[CaseReport]) -> tuple[FindingGroup, ...]:
    """Returns every cause of every case by itself, in the cases' order."""
    return tuple(
        group
        for case in cases
        for group in sorted((FindingGroup(finding=f, cases=(case,)) for f in list_causes(case)), key=_weight)
    )


def list_causes(case: CaseReport) -> tuple[Finding, ...]:
    """Returns the causes of the findings that are not allowed."""
    return compute_causes(list_counted(case.findings), tuple(case.outputs), case.source_roots)


def compute_places(cases: Sequence[CaseReport], several_targets: bool) -> tuple[str, ...]:
    """Each case once, with its targets where the run has several: `id`, or `id (a100, h100)`."""
    targets: dict[str, list[str]] = {}
    for case in cases:
        targets.setdefault(case.id, []).append(case.target)
    if not several_targets:
        return tuple(targets)
    return tuple(f"{case_id} ({', '.join(names)})" for case_id, names in targets.items())


def _weight(group: FindingGroup) -> tuple[int, str]:
    return _SEVERITIES.index(group.finding.severity), group.finding.rule
