"""Renders the report of `--quiet`: everything that makes a run fail or leaves it undecided, and the last line."""

from dataclasses import replace

from ligerdiag.model.report import CheckReport
from ligerdiag.report.causes import compute_shared_groups
from ligerdiag.report.status import list_unexcused
from ligerdiag.report.terminal.diagnostics import TroubleKind, list_troubles
from ligerdiag.report.terminal.finding_text import render_group, render_unused
from ligerdiag.report.terminal.spans import BLANK, Line, Span, Style, compute_wrapped
from ligerdiag.report.terminal.summary import name_targets, render_notes, render_totals, render_troubles

_OPEN = frozenset({TroubleKind.INCONCLUSIVE, TroubleKind.UNEXPLAINED, TroubleKind.NO_NUMBERS})
"""The kinds of trouble that the usual report shows only in its table and below it."""


def render_quiet_lines(report: CheckReport, *, width: int | None) -> tuple[Line, ...]:
    """Returns the lines of `--quiet`.

    They are the findings that count, the reasons why a case is unexpected or undecided, suppressions that allowed nothing
    or give no reason, notes on the run, and the last line. width: as in `full_report.render_terminal`.
    """
    several = len(report.targets) > 1
    lines: list[Line] = []
    for group in compute_shared_groups(replace(case, findings=list_unexcused(case)) for case in report.cases):
        lines.extend(render_group(group, width=width, several_targets=several, verbose=False))
    lines.extend(render_troubles(report.cases, width=width, verbose=False))
    lines.extend(_render_open(report, width))
    lines.extend(render_unused(report, width))
    lines.extend(render_notes(report, width))
    lines.extend(render_totals(report, width))
    return tuple(lines)


def _render_open(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns a line for each case in which something could not be decided, or whose numbers are missing because of a
    fault. A line that is the same on several targets of a case appears once.
    """
    found: dict[tuple[str, TroubleKind, str], list[str]] = {}
    for case in report.cases:
        for trouble in (one for one in list_troubles(case) if one.kind in _OPEN):
            found.setdefault((case.id, trouble.kind, trouble.message), []).append(case.target)
    lines: list[Line] = []
    for (case_id, kind, message), targets in found.items():
        head = (
            Span(kind.value.replace("-", " "), Style.DOUBTFUL),
            Span(f": {name_targets(case_id, targets)}: {message}"),
        )
        lines += compute_wrapped(head, width, 4)
    return (*lines, BLANK) if lines else ()
