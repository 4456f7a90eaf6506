"""Lines about allowed findings and unused suppressions."""

from ligerdiag.findings import Finding
from ligerdiag.report.allowed import list_allowed
from ligerdiag.report.causes import compute_causes, list_rules
from ligerdiag.report.grouping import compute_places
from ligerdiag.report.model import CaseReport, CheckReport
from ligerdiag.report.source_text import compute_place
from ligerdiag.report.spans import BLANK, Line, Span, Style, compute_wrapped


def render_allowed(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Renders how many findings are allowed; each of them with `verbose`. Empty if there are none."""
    allowed = [
        (finding, case)
        for case in report.cases
        for finding in compute_causes(list_allowed(case.findings), tuple(case.outputs), case.source_roots)
    ]
    if not allowed:
        return ()
    if not verbose:
        number = f"{len(allowed)} finding{'s' if len(allowed) > 1 else ''}"
        rules = ", ".join(dict.fromkeys(sorted(rule for finding, _ in allowed for rule in list_rules(finding))))
        text = f"{number} of {rules}, with a reason each: -v lists them"
        return compute_wrapped((Span("allowed: ", Style.STRONG), Span(text)), width, 4)
    members: dict[Finding, list[CaseReport]] = {}
    for finding, case in allowed:
        key = next((f for f in members if _is_same(f, finding)), finding)
        members.setdefault(key, []).append(case)
    lines: list[Line] = []
    for finding, cases in members.items():
        lines += _render_one(finding, cases, width=width, several_targets=len(report.targets) > 1)
    return (*lines, BLANK)


def render_unused(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns a note for each suppression that is not used or gives no reason."""
    lines: list[Line] = []
    for one in report.unused_suppressions:
        words = f"allow {one.rule}".rstrip()
        head = (Span("suppression", Style.NOTE), Span(f" {one.where}: `{words}` {one.message}"))
        lines += compute_wrapped(head, width, 4)
    return tuple(lines)


def _is_same(one: Finding, other: Finding) -> bool:
    return (one.rule, one.message, one.source, one.suppressed) == (
        other.rule,
        other.message,
        other.source,
        other.suppressed,
    )


def _render_one(
    finding: Finding, cases: list[CaseReport], *, width: int | None, several_targets: bool
) -> tuple[Line, ...]:
    said = finding.suppressed
    assert said is not None
    head = (Span("allowed: ", Style.STRONG), Span(f"{finding.rule} {finding.message}"))
    place = "" if finding.source is None else compute_place(finding.source)
    lines = list(compute_wrapped(head, width, 4))
    if place:
        lines.append((Span("  --> ", Style.FAINT), Span(place)))
    facts = (
        ("reason", said.reason),
        ("by", said.where),
        ("in", ", ".join(compute_places(cases, several_targets))),
    )
    for label, text in facts:
        lines += compute_wrapped((Span("   "), Span(f"{label}:".ljust(8), Style.NOTE), Span(text)), width, 11)
    return tuple(lines)
