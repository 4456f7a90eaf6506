"""Renders the memory of each case: one line, and with `--verbose` the case's copies, donations, requests and the values
that are alive at the peak.
"""

from collections.abc import Iterator, Sequence

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import Copy, DroppedArgument, MemoryUse
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.terminal.spans import Line, Span, Style, compute_padded, compute_width, compute_wrapped
from ligerdiag.report.words.memory_words import (
    count_rest,
    describe_cause,
    describe_dropped,
    describe_live,
    describe_memory,
    describe_requests,
    describe_size,
    describe_way,
    group_live,
    is_small,
    list_unmet,
    list_void,
    list_worst_first,
    name_instruction,
)
from ligerdiag.source_text import compute_place
from ligerdiag.text import compute_printable, render_bytes

MAX_MEMORIES = 12
"""At most this many cases have a line about memory; `--verbose` and JSON have all of them."""
MAX_SHOWN = 3
"""At most this many values are listed for one line of the program; JSON has all of them."""
_COLUMN = 16
_GAP = Span("  ")

type _Row = Sequence[Line]
"""The cells of a row; a single cell is a text that stands below the row before."""


def render_memories(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines about the memory of the cases.

    Empty if the memory of no case is known. Without `verbose`, also empty if no case needs enough memory for a line.
    """
    known = [(case, case.memory) for case in report.cases if case.memory is not None]
    if verbose:
        return tuple(line for case, memory in known for line in _render_whole(report, case, memory, width))
    large = [case for case, memory in known if not is_small(memory)]
    shown = large if len(large) <= MAX_MEMORIES else list_worst_first(large)[: MAX_MEMORIES - 1]
    lines: list[Line] = []
    for case in shown:
        if case.memory is not None:
            lines += _render_head(report, case, case.memory, width)
    if len(shown) < len(large):
        text = f"{len(large) - len(shown)} more: -v lists them"
        lines += compute_wrapped((Span("memory: ", Style.STRONG), Span(text)), width, 4)
    return tuple(lines)


def _render_head(report: CheckReport, case: CaseReport, memory: MemoryUse, width: int | None) -> tuple[Line, ...]:
    label = "memory: " if len(report.cases) == 1 else f"memory of `{case.id}` on {case.target}: "
    return compute_wrapped((Span(label, Style.STRONG), Span(describe_memory(memory))), width, 4)


def _render_whole(report: CheckReport, case: CaseReport, memory: MemoryUse, width: int | None) -> Iterator[Line]:
    yield from _render_head(report, case, memory, width)
    place = _place(memory.peak_line)
    at = " ".join(filter(None, (name_instruction(memory.peak_at), f"({place})" if place else "")))
    blocks: tuple[tuple[str, Sequence[_Row]], ...] = (
        ("peak at", [[(Span(at),)]] if at else []),
        ("alive", list(_list_alive(memory))),
        ("copies", [row for one in memory.copies for row in _list_copy(one)]),
        ("void", list(_list_void(memory))),
        ("dropped", [_make_dropped_row(one) for one in memory.dropped]),
        ("JAX warns", [[(Span(memory.warning),)]] if memory.warning else []),
        ("requests", list(_list_requests(memory))),
        ("collectives", [[(Span(render_bytes(size)),), (Span(opcode),)] for opcode, size in memory.collectives]),
    )
    for label, rows in blocks:
        yield from _render_block(label, rows, width)


def _list_alive(memory: MemoryUse) -> Iterator[_Row]:
    for group in group_live(memory):
        texts = [describe_live(value) for value in group.values[:MAX_SHOWN]]
        more = len(group.values) - len(texts)
        said = ", ".join([*texts, *([f"{more} more"] if more else [])])
        yield [(Span(render_bytes(group.bytes)),), (Span(_place(group.line) or "-"),), (Span(said),)]
    rest = count_rest(memory)
    if memory.at_peak and rest:
        yield [(Span(render_bytes(rest)),), (Span("-"),), (Span("smaller values"),)]


def _list_copy(copy: Copy) -> Iterator[_Row]:
    cells = (describe_size(copy), describe_way(copy), _place(copy.line) or "-")
    cause = Span(describe_cause(copy), Style.PLAIN if copy.is_needed else Style.WARNING)
    yield [*((Span(text),) for text in cells), (cause,)]
    why = f"{name_instruction(copy.instruction)}: {copy.why}" if copy.why else name_instruction(copy.instruction)
    yield [(Span(f"  {why}", Style.FAINT),)]


def _list_void(memory: MemoryUse) -> Iterator[_Row]:
    for one in list_void(memory):
        fault = "" if one.fault is None else one.fault.value
        cells = (render_bytes(one.bytes), f"`{one.argument}`", fault, _place(one.line) or "-")
        yield [(Span(text),) for text in cells]
        if one.why:
            yield [(Span(f"  {one.why}", Style.FAINT),)]


def _make_dropped_row(one: DroppedArgument) -> _Row:
    return [(Span(text),) for text in (render_bytes(one.bytes), f"`{one.argument}`", describe_dropped(one))]


def _list_requests(memory: MemoryUse) -> Iterator[_Row]:
    if not memory.requests:
        return
    yield [(Span(describe_requests(memory), Style.GOOD if memory.is_in_place else Style.PLAIN),)]
    for one in list_unmet(memory):
        cells = (render_bytes(one.bytes), one.kind.value, name_instruction(one.instruction), _place(one.line))
        yield [(Span(text or "-"),) for text in cells]


def _render_block(label: str, rows: Sequence[_Row], width: int | None) -> Iterator[Line]:
    """Yields the rows with aligned cells, the first row beside the label; wraps rows that are wider than `width`."""
    wide = [row for row in rows if len(row) > 1]
    columns = [max(compute_width(row[n]) for row in wide) for n in range(len(wide[0]))] if wide else []
    for number, row in enumerate(rows):
        head = Span(f"   {label}:".ljust(_COLUMN) if not number else " " * _COLUMN, Style.NOTE)
        padded = [compute_padded(cell, column) for cell, column in zip(row[:-1], columns, strict=False)]
        aligned = (head, *(span for cell in padded for span in (*cell, _GAP)), *row[-1])
        if width is None or compute_width(aligned) <= width:
            yield aligned
        else:
            loose = (head, *(span for cell in row[:-1] for span in (*cell, _GAP)), *row[-1])
            yield from compute_wrapped(loose, width, _COLUMN + 2)


def _place(line: SourceLine | None) -> str:
    return "" if line is None else compute_printable(compute_place(line))
