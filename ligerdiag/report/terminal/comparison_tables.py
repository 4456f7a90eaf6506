"""Renders results of `bisect`, `diff` and `compare` for a terminal.

A bisection is a table with a row for each trial, followed by evidence, answers and notes. A difference shows the
verdicts of both compiles, and then each overwritten operand with its readers and its bytes; rows in which the compiles
differ begin with `*`. If two columns do not fit the terminal, each compile has a line of its own. A comparison of two
reports is a table with the worst case first, and what changed below each row. If a row does not fit the terminal, each
column has a line of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.analysis.explain.drift import Instead, describe_reader
from ligerdiag.ending import Ending
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Fate, Neighbourhood, Origin, Reader
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
from ligerdiag.report.comparisons import Bisection, BisectionRow, Difference, DifferenceReport
from ligerdiag.report.terminal.case_table import join_cells, render_counted, render_outputs
from ligerdiag.report.terminal.diagnostics import render_verdict
from ligerdiag.report.terminal.spans import (
    BLANK,
    Line,
    Span,
    Style,
    compute_padded,
    compute_width,
    compute_wrapped,
    verdict_style,
)
from ligerdiag.report.words.memory_words import MemoryFigure, render_change
from ligerdiag.source_text import compute_near, compute_place
from ligerdiag.text import render_bytes

_GAP = Span("  ")
_WORDS: Mapping[str, tuple[str, Style]] = {
    "right": ("right", Style.GOOD),
    "latent": ("latent", Style.LATENT),
    "wrong": ("WRONG", Style.BAD),
    "unknown": ("unknown", Style.UNKNOWN),
}
_ANSWER = "*"
"""Sign at the beginning of a row that is an answer."""


def render_bisection(bisection: Bisection, *, width: int | None = None, verbose: bool = False) -> tuple[Line, ...]:
    """Returns the lines of one bisection, at most `width` columns wide unless a word is longer.

    verbose: adds the paths of artifacts.
    """
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
    """Returns the table of trials, one line for each row; if that is too wide, the outputs of a row have lines of their
    own.
    """
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
        spans.append(Span(f"; {how}, the rest was not tried", Style.BAD))
    elif bisection.is_unsettled:
        spans.append(Span("; a compile on which an answer depends could not be analysed", Style.BAD))
    return tuple(spans)


def _join(cells: list[Line], widths: list[int]) -> Line:
    spans: list[Span] = []
    for cell, width in zip(cells, widths, strict=True):
        if width:
            spans += [*compute_padded(cell, width), _GAP]
    return tuple(spans)


_COLUMN_GAP = "  "
_MARK = "*"
_ABSENT: Line = (Span("-", Style.FAINT),)


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a difference: its title, the texts of both compiles, and whether they differ."""

    title: Line
    first: Line
    second: Line
    differs: bool = False


def render_differences(report: DifferenceReport, width: int | None, *, verbose: bool = False) -> tuple[Line, ...]:
    """Returns all lines for the result of `diff`. verbose: adds rows that do not differ, and the paths of artifacts."""
    lines: list[Line] = []
    for difference in report.differences:
        lines += [*_render_difference(difference, width, verbose=verbose), BLANK]
    for note in report.notes:
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(note)), width, 4)
    return (*lines, *_render_difference_total(report, width))


def _render_difference(difference: Difference, width: int | None, *, verbose: bool) -> list[Line]:
    lines = list(compute_wrapped((Span(difference.name, Style.STRONG), Span(_describe_sides(difference))), width, 4))
    for side in difference.sides:
        if side.report.error:
            error = (Span("could not analyse", Style.BAD), Span(f" {side.label}: {side.report.error}"))
            lines += compute_wrapped(error, width, 4)
    if difference.error:
        return lines
    labels = (difference.first.label, difference.second.label)
    lines += [BLANK, *_render_rows("output", labels, [_verdict_row(*one) for one in difference.verdicts], width)]
    for pair in difference.writes:
        write = pair.after or pair.before
        lines.append(BLANK)
        head = (Span(pair.title, Style.STRONG), Span(f" is overwritten{_describe_place(write)}"))
        lines += compute_wrapped(head, width, 4)
        readers = [_reader_row(one.before, one.after) for one in pair.readers]
        bytes_ = _list_storage_rows(pair.before, pair.after, pair.instead)
        lines += _render_rows("reader", labels, readers, width) if readers else []
        lines += _render_rows("bytes", labels, [row for row in bytes_ if row.differs or verbose or not readers], width)
        for change in pair.changes:
            if verbose or not change.is_minor:
                fact = (Span("   "), Span(f"{change.kind.value}: ", Style.NOTE), Span(change.text))
                lines += compute_wrapped(fact, width, 6)
    if not difference.writes:
        lines.append((Span("on neither side does a kernel overwrite an operand behind XLA's back", Style.FAINT),))
    lines += _render_memory(difference, labels, width, verbose=verbose)
    missed = dict.fromkeys(difference.unsettled)
    for side in difference.sides:
        missed |= {f"{side.label}: {line}": None for line in side.report.coverage.not_covered}
    for line in missed:
        lines += compute_wrapped((Span("not covered: ", Style.STRONG), Span(line)), width, 4)
    if verbose:
        artifacts = [(side.label, side.report.artifact) for side in difference.sides]
        lines += [(Span(f"artifact of {label}: ", Style.NOTE), Span(path)) for label, path in artifacts if path]
    return lines


def _render_memory(difference: Difference, labels: tuple[str, str], width: int | None, *, verbose: bool) -> list[Line]:
    """Returns the lines about the memory of both compiles; empty if it does not differ and `verbose` is not set."""
    if not difference.memory or not (difference.differs_in_memory or verbose):
        return []
    return [BLANK, *_render_rows("memory", labels, [_memory_row(one) for one in difference.memory], width)]


def _memory_row(figure: MemoryFigure) -> _Row:
    first, second = (_ABSENT if size is None else (Span(render_bytes(size)),) for size in (figure.first, figure.second))
    if figure.change:
        assert figure.first is not None
        assert figure.second is not None
        second = (*second, Span(f" ({render_change(figure.first, figure.second)})"))
    return _Row((Span(_FIGURES.get(figure.name, figure.name)),), first, second, bool(figure.change))


_FIGURES = {"copied": "copied a call"}


def _describe_sides(difference: Difference) -> str:
    """Returns a line that explains the labels of the two compiles."""
    one, other = difference.first, difference.second
    first, second = one.report, other.report
    if one.label == "A":
        texts = [f"{side.label} is {side.report.id} ({side.report.target})" for side in difference.sides]
        return f": {', '.join(texts)}"
    common = [f"by {first.toolchain}"] if first.toolchain == second.toolchain else []
    common += [f"on {first.target}"] if first.target == second.target else []
    return f": {', '.join([f'{one.label} and {other.label}', *common])}"


def _describe_place(write: Neighbourhood | None) -> str:
    return f", called at {compute_place(write.source)}" if write is not None and write.source is not None else ""


def _verdict_row(name: str, first: Verdict | None, second: Verdict | None) -> _Row:
    cells = [_ABSENT if one is None else (Span(render_verdict(one), verdict_style(one)),) for one in (first, second)]
    return _Row((Span(name),), cells[0], cells[1], first is not second)


def _reader_row(first: Reader | None, second: Reader | None) -> _Row:
    one = second or first
    assert one is not None
    differs = first is None or second is None or (first.side, first.origin) != (second.side, second.origin)
    return _Row((Span(describe_reader(one).replace("`", "")),), _render_reader(first), _render_reader(second), differs)


def _render_reader(reader: Reader | None) -> Line:
    if reader is None:
        return _ABSENT
    words = {
        Origin.VALUE: "",
        Origin.SOURCE: ", reads the copied value",
        Origin.RECOMPUTED: ", computes it again",
    }[reader.origin]
    within = f", in a {reader.within}" if reader.within else ""
    return (Span(reader.side.value, Style.STRONG), Span(f"{words}{within}"))


def _list_storage_rows(
    first: Neighbourhood | None, second: Neighbourhood | None, instead: Instead | None
) -> list[_Row]:
    def compare(title: str, texts: Sequence[str]) -> _Row:
        return _Row((Span(title),), (Span(texts[0]),), (Span(texts[1]),), texts[0] != texts[1])

    both = (first, second)
    is_called = instead is Instead.DECLARED or instead is Instead.OUT_OF_PLACE
    absent = instead.value if instead is not None and is_called else "not there"
    return [
        compare("the call", [one.fate.value if one else absent for one in both]),
        compare("size", [f"{one.shape}, {one.size} bytes" if _stands(one) and one else "-" for one in both]),
        compare("copied by", [", ".join(one.copied_by) or "nothing" if _stands(one) and one else "-" for one in both]),
        compare("shared with", ["; ".join(one.shares) or "nothing" if _stands(one) and one else "-" for one in both]),
    ]


def _stands(one: Neighbourhood | None) -> bool:
    return one is not None and one.fate is Fate.PERFORMED


def _render_rows(title: str, labels: tuple[str, str], rows: Sequence[_Row], width: int | None) -> list[Line]:
    if not rows:
        return []
    heading = _Row((Span(title, Style.FAINT),), (Span(labels[0], Style.FAINT),), (Span(labels[1], Style.FAINT),))
    table = [heading, *rows]
    columns = [max(map(compute_width, cells)) for cells in ([r.title for r in table], [r.first for r in table])]
    wide: list[Line] = [
        (
            _render_mark(row),
            *compute_padded(row.title, columns[0]),
            Span(_COLUMN_GAP),
            *compute_padded(row.first, columns[1]),
            Span(_COLUMN_GAP),
            *row.second,
        )
        for row in table
    ]
    if width is None or all(compute_width(line) <= width for line in wide):
        return wide
    lines: list[Line] = [(Span(_COLUMN_GAP), *heading.title)]
    for row in rows:
        lines += compute_wrapped((_render_mark(row), *row.title), width, 4)
        for label, cell in zip(labels, (row.first, row.second), strict=True):
            lines += compute_wrapped((Span("    "), Span(f"{label}: ", Style.FAINT), *cell), width, 6)
    return lines


def _render_mark(row: _Row) -> Span:
    return Span(f"{_MARK} ", Style.BAD) if row.differs else Span(_COLUMN_GAP)


def _render_difference_total(report: DifferenceReport, width: int | None) -> tuple[Line, ...]:
    if not report.differences:
        text = "interrupted before both sides were done" if report.interrupted else "nothing was compared"
        return ((Span(text, Style.BAD),),)
    failed = sum(bool(one.error) for one in report.differences)
    compared = len(report.differences) - failed
    differing = sum(one.differs for one in report.differences)
    memory = sum(one.differs_in_memory for one in report.differences)
    spans = [
        Span(f"compared {compared} in {report.seconds:.1f} s", Style.STRONG),
        Span(": "),
        Span(f"{differing} with other verdicts or readers", Style.BAD if differing else Style.FAINT),
        Span(", "),
        Span(f"{compared - differing} without a difference that matters", Style.GOOD),
    ]
    if memory:
        spans += [Span(", "), Span(f"{memory} with other memory", Style.FAINT)]
    if failed:
        spans += [Span(", "), Span(f"{failed} could not be analysed", Style.BAD)]
    if report.interrupted:
        spans.append(Span("; interrupted, the rest was not compared", Style.BAD))
    return compute_wrapped(tuple(spans), width, 4)


_STYLES = {
    Grade.WORSE: Style.BAD,
    Grade.MIXED: Style.WARNING,
    Grade.BETTER: Style.GOOD,
    Grade.SAME: Style.FAINT,
    Grade.UNKNOWN: Style.UNKNOWN,
}
MOST_SAME = 20
"""Largest number of unchanged cases whose verdicts are shown without `verbose`."""


def render_report_comparison(
    comparison: ReportComparison, width: int | None, *, verbose: bool = False
) -> tuple[Line, ...]:
    """Returns the lines of the comparison, at most `width` columns wide as far as words allow. Cases that did not change are
    counted. A comparison of toolchains also gives their verdicts, one line each, because its run prints no other report.

    verbose: adds the cases that did not change to the table.
    """
    shown = [case for case in comparison.cases if verbose or not case.is_same]
    lines = list(compute_wrapped((Span(describe_sides(comparison), Style.STRONG),), width, 4))
    lines += [BLANK, *_render_cases(shown, width)] if shown else []
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


def _render_cases(cases: Sequence[ComparedCase], width: int | None) -> list[Line]:
    with_target = len({case.target for case in cases}) > 1
    titles = ("", "case", *(("target",) if with_target else ()), *COLUMNS)
    rows = [(case.grade.value, case.id, *((case.target,) if with_target else ()), *list_cells(case)) for case in cases]
    table: list[list[Line]] = [[(Span(title, Style.FAINT),) for title in titles]]
    for case, row in zip(cases, rows, strict=True):
        table.append([(Span(row[0], _STYLES[case.grade]),), *((Span(cell),) for cell in row[1:])])
    widths = [max(compute_width(row[column]) for row in table) for column in range(len(titles))]
    wide = [join_cells(row, widths) for row in table]
    if width is None or all(compute_width(line) <= width for line in wide):
        return wide
    lines: list[Line] = []
    for row in table[1:]:
        lines += compute_wrapped((*row[0], Span(_COLUMN_GAP), *row[1]), width, 4)
        for title, cell in zip(titles[2:], row[2:], strict=True):
            lines += compute_wrapped((Span(f"    {title}: ", Style.FAINT), *cell), width, 6)
    return lines


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
