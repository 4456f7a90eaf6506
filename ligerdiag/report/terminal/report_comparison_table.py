"""Renders a comparison of two reports for a terminal: a table with the worst case first, and what changed below each
row.

Cases that did not change are counted, and shown only with `verbose`. A comparison of toolchains also gives the verdicts
of these unchanged cases, one line each, because its run prints no other report. If a row does not fit the terminal,
each column has a line of its own.
"""

from collections.abc import Sequence

from ligerdiag.report.compared.comparison_words import (
    COLUMNS,
    TOLERATED,
    describe_counts,
    describe_sides,
    list_cells,
    list_changes,
    list_notes,
)
from ligerdiag.report.compared.report_comparison import GRADES_TO_CHECK, ComparedCase, Grade, ReportComparison
from ligerdiag.report.terminal.case_table import render_counted
from ligerdiag.report.terminal.spans import BLANK, Line, Span, Style, compute_padded, compute_width, compute_wrapped

_STYLES = {
    Grade.WORSE: Style.BAD,
    Grade.MIXED: Style.WARNING,
    Grade.BETTER: Style.GOOD,
    Grade.SAME: Style.FAINT,
    Grade.UNKNOWN: Style.UNKNOWN,
}
_GAP = "  "
MOST_SAME = 20
"""Largest number of unchanged cases whose verdicts are shown without `verbose`."""


def render_report_comparison(
    comparison: ReportComparison, width: int | None, *, verbose: bool = False
) -> tuple[Line, ...]:
    """Returns the lines of the comparison, at most `width` columns wide unless a word is longer.

    verbose: adds the cases that did not change.
    """
    shown = [case for case in comparison.cases if verbose or not case.is_same]
    lines = list(compute_wrapped((Span(describe_sides(comparison), Style.STRONG),), width, 4))
    lines += [BLANK, *_render_table(shown, width)] if shown else []
    for case in shown:
        lines += _render_changes(case, width)
    if comparison.new.name and not verbose:
        lines += _render_same([case for case in comparison.cases if case.is_same], width)
    lines += [BLANK]
    for note in list_notes(comparison):
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(note)), width, 6)
    if any(case.figures for case in comparison.cases):
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(TOLERATED)), width, 6)
    is_worse = any(comparison.list_graded(grade) for grade in GRADES_TO_CHECK)
    total = (Span(describe_counts(comparison), Style.BAD if is_worse else Style.STRONG),)
    return (*lines, *compute_wrapped(total, width, 4))


def _render_same(cases: Sequence[ComparedCase], width: int | None) -> list[Line]:
    """Returns a line with the verdicts of each case that did not change, at most `MOST_SAME` of them."""
    lines: list[Line] = [BLANK] if cases else []
    for case in cases[:MOST_SAME]:
        place = f" on {case.target}" if case.target else ""
        head = (Span("the same: ", Style.FAINT), Span(f"{case.id}{place}", Style.STRONG), Span(": "))
        verdicts = render_counted(case.new.outputs, {}) if case.new.outputs else (Span(case.new.status.value),)
        lines += compute_wrapped((*head, *verdicts), width, 4)
    if len(cases) > MOST_SAME:
        lines.append((Span("the same: ", Style.FAINT), Span(f"{len(cases) - MOST_SAME} more, shown with -v")))
    return lines


def _render_table(cases: Sequence[ComparedCase], width: int | None) -> list[Line]:
    with_target = len({case.target for case in cases}) > 1
    titles = ("", "case", *(("target",) if with_target else ()), *COLUMNS)
    rows = [(case.grade.value, case.id, *((case.target,) if with_target else ()), *list_cells(case)) for case in cases]
    table: list[list[Line]] = [[(Span(title, Style.FAINT),) for title in titles]]
    for case, row in zip(cases, rows, strict=True):
        table.append([(Span(row[0], _STYLES[case.grade]),), *((Span(cell),) for cell in row[1:])])
    widths = [max(compute_width(row[column]) for row in table) for column in range(len(titles))]
    wide = [_join(row, widths) for row in table]
    if width is None or all(compute_width(line) <= width for line in wide):
        return wide
    lines: list[Line] = []
    for row in table[1:]:
        lines += compute_wrapped((*row[0], Span(_GAP), *row[1]), width, 4)
        for title, cell in zip(titles[2:], row[2:], strict=True):
            lines += compute_wrapped((Span(f"    {title}: ", Style.FAINT), *cell), width, 6)
    return lines


def _join(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    spans: list[Span] = []
    for cell, width in zip(cells[:-1], widths[:-1], strict=True):
        spans += [*compute_padded(cell, width), Span(_GAP)]
    return (*spans, *cells[-1])


def _render_changes(case: ComparedCase, width: int | None) -> list[Line]:
    facts = [*list_changes(case), *([("look further", case.hint)] if case.hint else [])]
    if not facts:
        return []
    lines: list[Line] = [BLANK, (Span(case.id, Style.STRONG), Span(f" on {case.target}" if case.target else ""))]
    column = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        fact = (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(text))
        lines += compute_wrapped(fact, width, column + 3)
    return lines
