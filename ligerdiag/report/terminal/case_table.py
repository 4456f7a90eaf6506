"""Renders the table of cases: one row for each case, with its verdicts on each target and how numbers compare with
them.

If the columns do not fit the terminal, a case takes several lines: one with its id and status, and one for each target.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.status import compute_allowed_outputs
from ligerdiag.report.terminal.diagnostics import (
    render_device_word,
    render_output_lines,
    render_replay_word,
    render_verdict,
)
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
from ligerdiag.text import FEW

STATUS_TEXTS: Mapping[Status, str] = {
    Status.CLEAN: "fresh",
    Status.ALLOWED: "allowed",
    Status.EXPECTED: "as expected",
    Status.FINDINGS: "FINDINGS",
    Status.UNEXPECTED: "UNEXPECTED",
    Status.INCONCLUSIVE: "inconclusive",
    Status.DISAGREEMENT: "DISAGREEMENT",
    Status.NOTHING: "nothing to check",
    Status.ERROR: "could not analyse",
    Status.NOT_CHECKED: "not run",
}
"""Maps each status to its text in a row; in capitals if the status needs attention."""

STATUS_STYLES: Mapping[Status, Style] = {
    Status.CLEAN: Style.GOOD,
    Status.ALLOWED: Style.GOOD,
    Status.EXPECTED: Style.GOOD,
    Status.FINDINGS: Style.BAD,
    Status.UNEXPECTED: Style.BAD,
    Status.INCONCLUSIVE: Style.DOUBTFUL,
    Status.DISAGREEMENT: Style.BAD,
    Status.NOTHING: Style.FAINT,
    Status.ERROR: Style.BAD,
    Status.NOT_CHECKED: Style.DOUBTFUL,
}

_GAP = "  "
_BY_WEIGHT = (
    Status.NOTHING,
    Status.CLEAN,
    Status.ALLOWED,
    Status.EXPECTED,
    Status.INCONCLUSIVE,
    Status.NOT_CHECKED,
    Status.FINDINGS,
    Status.UNEXPECTED,
    Status.DISAGREEMENT,
    Status.ERROR,
)
_WITNESSES: Mapping[str, Callable[[CaseReport], Line]] = {"replay": render_replay_word, "device": render_device_word}
"""Title and renderer of each column about the numbers of a replay or a device run; a table has such a column if at
least one case fills it.
"""

type Row = dict[str, CaseReport]
"""The reports of one case, by target."""


def render_table(report: CheckReport, width: int | None, *, verbose: bool = False) -> tuple[Line, ...]:
    """Returns the lines of the table, at most `width` columns wide unless an id is longer.

    If `width` is None, each case has one line of any width. verbose: adds a line for each output that has numbers.
    """
    rows: dict[str, Row] = {}
    for case in report.cases:
        rows.setdefault(case.id, {})[case.target] = case
    if not rows:
        return ()
    wide = _render_wide(rows, report.targets)
    fits = width is None or all(compute_width(line) <= width for line in wide)
    blocks = [(line,) for line in wide[1:]] if fits else _render_stacked(rows, report.targets, width)
    lines: list[Line] = [wide[0]] if fits else []
    grouped = len({_group(case_id) for case_id in rows}) < len(rows)
    previous = ""
    for case_id, block in zip(rows, blocks, strict=True):
        if grouped and previous and _group(case_id) != previous:
            lines.append(BLANK)
        previous = _group(case_id)
        lines.extend(block)
        for target, case in rows[case_id].items() if verbose else ():
            label = f"{target}: " if len(report.targets) > 1 else ""
            lines.extend(render_output_lines(case, width=width, label=label))
    return tuple(lines)


def render_outputs(outputs: Mapping[str, Verdict], allowed: Collection[str] = ()) -> Line:
    """Returns the verdict of each output, in the program's order, such as `loss fresh · input STALE`.

    Each verdict has its style. allowed: names of the outputs whose verdict is allowed.
    """
    spans: list[Span] = []
    for name, verdict in outputs.items():
        spans += [Span(" · ", Style.FAINT)] if spans else []
        spans += [Span(f"{name} "), Span(render_verdict(verdict), verdict_style(verdict))]
        spans += [Span(" (allowed)", Style.FAINT)] if name in allowed else []
    return tuple(spans)


def render_counted(outputs: Mapping[str, Verdict], allowed: Collection[str] = ()) -> Line:
    """Returns the verdict of each output, or numbers of outputs such as `28 of 30 STALE · 2 fresh` if there are many.

    The numbers are sorted by verdict, the worst first.
    """
    if len(outputs) <= FEW:
        return render_outputs(outputs, allowed)
    counts = Counter((verdict, name in allowed) for name, verdict in outputs.items())
    spans: list[Span] = []
    for (verdict, is_allowed), count in sorted(
        counts.items(), key=lambda item: (-VERDICT_ORDER.index(item[0][0]), item[0][1])
    ):
        number = f"{count} " if spans else f"{count} of {len(outputs)} "
        spans += [Span(" · ", Style.FAINT)] if spans else []
        spans += [Span(number), Span(render_verdict(verdict), verdict_style(verdict))]
        spans += [Span(" (allowed)", Style.FAINT)] if is_allowed else []
    return tuple(spans)


def _render_wide(rows: Mapping[str, Row], targets: Sequence[str]) -> list[Line]:
    """Returns the heading and one line for each case, with aligned columns."""
    cases = [case for row in rows.values() for case in row.values()]
    witnesses = [name for name, render in _WITNESSES.items() if any(render(case) for case in cases)]
    heading: list[Line] = [(Span(name, Style.FAINT),) for name in ("case", "status", *witnesses, *targets)]
    table = [heading]
    for case_id, row in rows.items():
        cells: list[Line] = [(Span(case_id),), _status_cell(row)]
        cells += [_witness_cell(row, _WITNESSES[name]) for name in witnesses]
        cells += [_target_cell(row, target) for target in targets]
        table.append(cells)
    widths = [max(compute_width(cells[column]) for cells in table) for column in range(len(heading))]
    return [join_cells(cells, widths) for cells in table]


def _render_stacked(rows: Mapping[str, Row], targets: Sequence[str], width: int | None) -> list[tuple[Line, ...]]:
    longest = max(compute_width((Span(case_id),)) for case_id in rows)
    room = (width or 0) - len(_GAP) - max(len(word) for word in STATUS_TEXTS.values())
    column = longest if longest <= room else 0
    blocks: list[tuple[Line, ...]] = []
    for case_id, row in rows.items():
        head = (*compute_padded((Span(case_id),), column), Span(_GAP), *_status_cell(row))
        lines = list(compute_wrapped(head, width, 4))
        for target in targets:
            cell = _target_cell(row, target)
            if not cell:
                continue
            label = (Span(f"{target}: ", Style.FAINT),) if len(targets) > 1 else ()
            lines += compute_wrapped((Span("    "), *label, *cell), width, 6)
            for name, render in _WITNESSES.items():
                word = render(row[target]) if target in row else ()
                if word:
                    _append(lines, (Span(f"{name} "), *word), width)
        blocks.append(tuple(lines))
    return blocks


def _append(lines: list[Line], phrase: Line, width: int | None) -> None:
    """Adds the phrase to the last line if it fits there within `width` columns, else as a line of its own."""
    longer = (*lines[-1], Span(_GAP), *phrase)
    if width is None or compute_width(longer) <= width:
        lines[-1] = longer
    else:
        lines.append((Span("      "), *phrase))


def _status_cell(row: Row) -> Line:
    """Returns the worst status that the case has on any target."""
    status = max((case.status for case in row.values()), key=_BY_WEIGHT.index)
    return (Span(STATUS_TEXTS[status], STATUS_STYLES[status]),)


def _witness_cell(row: Row, render: Callable[[CaseReport], Line]) -> Line:
    """Returns how the numbers of a replay or a device compare with the verdicts: one text if it is the same on all
    targets, else one text for each target.
    """
    words = {target: render(case) for target, case in row.items()}
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), ())
    spans: list[Span] = []
    for target, word in words.items():
        spans += [Span(" · ", Style.FAINT)] if spans else []
        spans += [Span(f"{target} "), *(word or (Span("-", Style.FAINT),))]
    return tuple(spans)


def _target_cell(row: Row, target: str) -> Line:
    """Returns the verdicts on one target, after the status there if the targets differ in status."""
    case = row.get(target)
    if case is None:
        return (Span("not done", Style.FAINT),)
    differ = len({other.status for other in row.values()}) > 1
    status = Span(STATUS_TEXTS[case.status], STATUS_STYLES[case.status])
    outputs = render_counted(case.outputs, compute_allowed_outputs(case.outputs, case.findings))
    if not differ:
        return outputs
    return (status, Span(": "), *outputs) if outputs else (status,)


def join_cells(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    """Returns the row of a table: each cell but the last one padded to the width of its column, with gaps."""
    padded = [compute_padded(cell, width) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    spans: list[Span] = []
    for cell in padded:
        spans += [*cell, Span(_GAP)]
    return (*spans, *cells[-1])


def _group(case_id: str) -> str:
    return case_id.partition("[")[0]
