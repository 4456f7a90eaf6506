"""A finding in words, as rustc would say it: the fact, the place, the evidence, one remedy."""

from ligerdiag.report.grouping import FindingGroup, compute_places
from ligerdiag.report.source_text import compute_place, load_source_text
from ligerdiag.report.spans import BLANK, Line, Span, Style, compute_wrapped, severity_style

MAX_PLACES = 6
"""Ids that are listed under a group before "and N more"; all of them with `--verbose`, and always in JSON."""


def render_group(group: FindingGroup, *, width: int | None, several_targets: bool, verbose: bool) -> tuple[Line, ...]:
    """The lines of one group of equal findings, a blank one last."""
    finding = group.finding
    head = (
        Span(f"{finding.severity.value}[{finding.rule}]", severity_style(finding.severity)),
        Span(": "),
        Span(finding.message, Style.STRONG),
    )
    lines = list(compute_wrapped(head, width, 4))
    if finding.source is not None:
        place = (Span("  --> ", Style.FAINT), Span(compute_place(finding.source)))
        text = load_source_text(finding.source)
        lines += compute_wrapped((*place, Span("  "), Span(text, Style.FAINT)) if text else place, width, 6)
    facts = [*finding.evidence, ("help", finding.help)] if finding.help else [*finding.evidence]
    facts.append(("in", _render_places(group, several_targets=several_targets, verbose=verbose)))
    column = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        lines += compute_wrapped(
            (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(text)), width, column + 3
        )
    if verbose:
        lines += [(Span("   artifact: ", Style.NOTE), Span(case.artifact)) for case in group.cases[:1] if case.artifact]
    return (*lines, BLANK)


def _render_places(group: FindingGroup, *, several_targets: bool, verbose: bool) -> str:
    places = compute_places(group.cases, several_targets)
    if verbose or len(places) <= MAX_PLACES:
        return ", ".join(places)
    return f"{', '.join(places[: MAX_PLACES - 1])} and {len(places) - MAX_PLACES + 1} more"
