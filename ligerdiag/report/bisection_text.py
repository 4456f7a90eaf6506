"""A bisection for people: table, evidence, answers, and what was not looked at."""

from collections.abc import Mapping

from ligerdiag.ending import Ending
from ligerdiag.report.bisection import Bisection, BisectionRow
from ligerdiag.report.source_text import compute_near
from ligerdiag.report.spans import (
    BLANK,
    Line,
    Span,
    Style,
    compute_padded,
    compute_width,
    compute_wrapped,
)
from ligerdiag.report.table import render_outputs

_GAP = Span("  ")
_WORDS: Mapping[str, tuple[str, Style]] = {
    "right": ("right", Style.GOOD),
    "latent": ("latent", Style.LATENT),
    "wrong": ("WRONG", Style.BAD),
    "unknown": ("unknown", Style.UNKNOWN),
}
_ANSWER = "*"
"""Before a row that is what was looked for."""


def render_bisection(bisection: Bisection, *, width: int | None = None, verbose: bool = False) -> tuple[Line, ...]:
    """Returns the lines of one bisection, at most `width` columns where words allow it. verbose: with artifacts."""
    lines: list[Line] = [_render_title(bisection)]
    if bisection.rows:
        lines += [BLANK, *_render_table(bisection, width)]
    for row in bisection.rows:
        lines += _render_evidence(row, width, verbose=verbose)
    lines += [BLANK] if bisection.answers else []
    for answer in bisection.answers:
        lines += compute_wrapped((Span("answer: ", Style.STRONG), Span(answer)), width, 8)
    for note in bisection.notes:
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(note)), width, 6)
    return (*lines, *compute_wrapped(_render_total(bisection), width, 4))


def _render_title(bisection: Bisection) -> Line:
    where = f" on {bisection.target}" if bisection.target else ""
    by = f", {bisection.toolchain}" if bisection.toolchain else ""
    return (Span(f"{bisection.axis.value} of {bisection.case_id}", Style.STRONG), Span(f"{where}{by}"))


def _render_table(bisection: Bisection, width: int | None) -> list[Line]:
    """Returns a line a row; where that is too wide, the outputs stand on lines of their own."""
    replayed = any(row.replay for row in bisection.rows)
    titles = ["", bisection.axis.value, "verdict", *bisection.columns, *(["replay"] if replayed else [])]
    table: list[list[Line]] = [[(Span(title, Style.FAINT),) for title in titles]]
    for row in bisection.rows:
        word, style = _WORDS.get(row.word, (row.word, Style.PLAIN))
        mark = Span(_ANSWER, Style.STRONG) if row.is_answer else Span("")
        cells: list[Line] = [(mark,), (Span(row.label),), (Span(word, style),)]
        cells += [(Span(row.cells.get(column, "")),) for column in bisection.columns]
        cells += [_render_replay(row)] if replayed else []
        table.append(cells)
    widths = [max(compute_width(cells[column]) for cells in table) for column in range(len(titles))]
    heads = [_join(cells, widths) for cells in table]
    tails: list[Line] = [(Span("outputs", Style.FAINT),), *(_render_tail(row) for row in bisection.rows)]
    whole: list[Line] = [(*head, *tail) for head, tail in zip(heads, tails, strict=True)]
    if width is None or all(compute_width(line) <= width for line in whole):
        return whole
    lines = [*compute_wrapped(heads[0], width, 4)]
    for head, tail in zip(heads[1:], tails[1:], strict=True):
        lines += compute_wrapped(head, width, 6)
        lines += compute_wrapped((Span("      "), *tail), width, 8)
    return lines


def _render_replay(row: BisectionRow) -> Line:
    return (Span(row.replay, Style.BAD if row.replay == "DISAGREES" else Style.PLAIN),)


def _render_tail(row: BisectionRow) -> Line:
    return (Span(row.error, Style.BAD),) if row.error else render_outputs(row.outputs)


def _render_evidence(row: BisectionRow, width: int | None, *, verbose: bool) -> list[Line]:
    facts = [*row.evidence, *((("artifact", row.artifact),) if verbose and row.artifact else ())]
    if not facts:
        return []
    lines: list[Line] = [BLANK, (Span(row.label.strip(), Style.STRONG),)]
    column = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        fact = (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(compute_near(text)))
        lines += compute_wrapped(fact, width, column + 3)
    return lines


def _render_total(bisection: Bisection) -> Line:
    noun = "way to compile it" if bisection.trials == 1 else "ways to compile it"
    spans = [
        Span(f"{bisection.trials} {noun}", Style.STRONG),
        Span(f", {bisection.compiled} of them not in the cache, in {bisection.seconds:.1f} s"),
    ]
    if bisection.interrupted:
        how = "interrupted" if bisection.ended_by is Ending.INTERRUPT else f"ended by {bisection.ended_by.value}"
        spans.append(Span(f"; {how}, the rest was not looked at", Style.BAD))
    elif bisection.is_unsettled:
        spans.append(Span("; something that an answer needs could not be analysed", Style.BAD))
    return tuple(spans)


def _join(cells: list[Line], widths: list[int]) -> Line:
    spans: list[Span] = []
    for cell, width in zip(cells, widths, strict=True):
        if width:
            spans += [*compute_padded(cell, width), _GAP]
    return tuple(spans)
