"""The report as workflow commands of GitHub: what needs attention becomes annotations on the lines concerned.

Expected and allowed results are not annotated, only counted. Each finding is one annotation, with the cases and targets
it was met in; GitHub shows ten of each severity for a step, so the weightiest come first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ligerdiag.judgement.causes import compute_places, compute_shared_groups
from ligerdiag.judgement.conclusion import list_unexcused
from ligerdiag.model.findings import Severity, SourceLine, SuppressionKind
from ligerdiag.model.report import CheckReport
from ligerdiag.render.places import Repository, find_case_place
from ligerdiag.render.terminal.diagnostics import list_troubles
from ligerdiag.render.terminal.findings import render_finding_plain, render_trouble_plain
from ligerdiag.render.terminal.spans import compute_text
from ligerdiag.render.terminal.summary import describe_cut, render_totals
from ligerdiag.rules.registry import RULES
from ligerdiag.source_text import parse_place
from ligerdiag.text import compute_printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_NAMES = {rule.id: rule.name for rule in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """The annotation that GitHub shows beside a line."""

    severity: Severity
    title: str
    lines: tuple[str, ...]
    place: SourceLine | None = None


def render_github(report: CheckReport, *, repository: Repository) -> str:
    """Returns a line for each annotation, then the totals, with a final newline."""
    order = tuple(Severity)
    annotations = sorted(list_annotations(report), key=lambda annotation: order.index(annotation.severity))
    commands = [_render(annotation, repository) for annotation in annotations]
    totals = [compute_text(line) for line in render_totals(report, None)]
    return "\n".join((*commands, *totals)) + "\n"


def list_annotations(report: CheckReport) -> Iterator[Annotation]:
    """Troubles in the order of the cases, findings that count, suppressions that are not used."""
    several = len(report.targets) > 1
    for case in report.cases:
        place = find_case_place(case)
        for trouble in list_troubles(case):
            lines = render_trouble_plain(trouble, compute_places((case,), several))
            title = trouble.kind.value.replace("-", " ")
            yield Annotation(severity=trouble.severity, title=title, lines=lines, place=place)
    for group in compute_shared_groups(replace(case, findings=list_unexcused(case)) for case in report.cases):
        finding = group.finding
        yield Annotation(
            severity=finding.severity,
            title=f"{finding.rule} {_NAMES.get(finding.rule, '')}".rstrip(),
            lines=render_finding_plain(finding, compute_places(group.cases, several)),
            place=finding.source or find_case_place(group.cases[0]),
        )
    if report.interrupted:
        yield Annotation(severity=Severity.ERROR, title="interrupted", lines=(describe_cut(report),))
    for one in report.unused_suppressions:
        text = compute_printable(f"{one.where}: `{f'allow {one.rule}'.rstrip()}` {one.message}")
        place = parse_place(one.where) if one.kind is SuppressionKind.IN_CODE else None
        yield Annotation(severity=Severity.WARNING, title="unused suppression", lines=(text,), place=place)


def _render(annotation: Annotation, repository: Repository) -> str:
    properties: list[tuple[str, str]] = []
    lines: Sequence[str] = annotation.lines
    place = annotation.place
    if place is not None:
        file = repository.find(place.file)
        if file:
            properties.append(("file", file))
            if place.line > 0:
                properties += [("line", str(place.line)), ("endLine", str(place.line))]
        else:
            where = f"{place.file}:{place.line}" if place.line > 0 else place.file
            lines = (*lines, compute_printable(f"at: {where}"))
    properties.append(("title", annotation.title))
    words = ",".join(f"{name}={_escape_property(value)}" for name, value in properties)
    return f"::{_COMMANDS[annotation.severity]} {words}::{_escape('\n'.join(lines))}"


def _escape(text: str) -> str:
    """Data of a workflow command: https://docs.github.com/actions/reference/workflow-commands-for-github-actions."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(compute_printable(text)).replace(":", "%3A").replace(",", "%2C")
