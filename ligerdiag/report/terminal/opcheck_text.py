"""Renders the report of `ligerdiag.opcheck` as text: each call with its buffers, then the problems."""

from collections.abc import Iterator, Sequence

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.opcheck_report import CheckedCall, OpcheckReport, Problem
from ligerdiag.source_text import compute_place
from ligerdiag.text import compute_printable, count_of


def render_opcheck(report: OpcheckReport) -> str:
    """Returns the report as text, without colours, and with a newline at the end of each line."""
    return "".join(f"{compute_printable(line).rstrip()}\n" for line in _list_lines(report))


def _list_lines(report: OpcheckReport) -> Iterator[str]:
    how = f"code read, calls run on {report.device}" if report.device else "code read, no call run"
    yield f"opcheck of `{report.function}`: {count_of(len(report.calls), 'kernel call')}, {how}"
    for call in report.calls:
        yield ""
        yield from _list_call(call)
    for problem in report.problems:
        yield ""
        yield from _list_problem(problem)
    if report.not_covered or report.notes:
        yield ""
    for line in report.not_covered:
        yield f"not covered: {line}"
    for line in report.notes:
        yield f"note: {line}"
    yield ""
    yield _conclude(report)


def _conclude(report: OpcheckReport) -> str:
    if report.problems:
        return f"wrong: {count_of(len(report.problems), 'problem')}"
    if report.not_covered:
        return "undecided: no problem found, and not everything was covered"
    return "ok"


def _list_call(call: CheckedCall) -> Iterator[str]:
    runs = f", {count_of(call.runs, 'run')}" if call.runs else ""
    yield f"`{call.kernel}`{_locate(call.source)}{runs}"
    if not call.rows:
        return
    columns = ["", "", "declared", "code"] + (["runs"] if call.runs else [])
    table = [columns, *([row.name, row.shape, row.declared, row.code, row.seen] for row in call.rows)]
    yield from _align([row[: len(columns)] for row in table])


def _align(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _list_problem(problem: Problem) -> Iterator[str]:
    yield f"error[{problem.kind.value}]: {problem.message}"
    if problem.source is not None:
        yield f"  --> {compute_place(problem.source)}"
    for line in problem.evidence:
        yield f"   {line}"
    for line in problem.lines:
        yield f"   code: {compute_place(line)}"
    if problem.help:
        yield f"   help: {problem.help}"


def _locate(source: SourceLine | None) -> str:
    return f" at {compute_place(source)}" if source is not None else ""
