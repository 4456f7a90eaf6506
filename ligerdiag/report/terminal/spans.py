"""Styled text as data: a line is a tuple of spans, and a span is printable text with a meaning that decides its colour.

The layout here depends on no terminal library; `full_report` paints it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.text import compute_cells, compute_printable


class Style(StrEnum):
    """The meaning of a span, which decides its colour. The colour adds nothing to what the text says."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    BAD = "bad"
    DOUBTFUL = "doubtful"
    FRESH = "fresh"
    LATENT = "latent"
    UNKNOWN = "unknown"
    CLOBBERED = "clobbered"
    STALE = "stale"
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Span:
    """A text with a style. Escape sequences, control characters and line breaks are removed from the text."""

    text: str
    style: Style = Style.PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", compute_printable(self.text))


type Line = tuple[Span, ...]

BLANK: Line = ()


def verdict_style(verdict: Verdict) -> Style:
    return Style(verdict.value)


def severity_style(severity: Severity) -> Style:
    return Style(severity.value)


def compute_text(line: Line) -> str:
    """Returns the text of the line without its styles."""
    return "".join(span.text for span in line)


def compute_width(line: Line) -> int:
    """Returns the number of terminal columns that the line takes."""
    return sum(compute_cells(span.text) for span in line)


def compute_padded(line: Line, width: int) -> Line:
    """Returns the line with spaces added at its end, so that it is `width` columns wide."""
    missing = width - compute_width(line)
    return (*line, Span(" " * missing)) if missing > 0 else line


def compute_wrapped(line: Line, width: int | None, indent: int) -> tuple[Line, ...]:
    """Breaks the line between words into lines of at most `width` columns.

    All lines but the first begin at column `indent`. A width of None means that nothing is broken. No word is broken, so
    that ids and paths can be copied; a long word makes its line wider.
    """
    if width is None or compute_width(line) <= width:
        return (line,)
    rows: list[list[Span]] = [[]]
    column = 0
    for span in line:
        for word in re.findall(r" +|[^ ]+", span.text):
            cells = compute_cells(word)
            if column + cells > width and column > indent:
                rows.append([Span(" " * indent)])
                column = indent
                if word.isspace():
                    continue
            rows[-1].append(Span(word, span.style))
            column += cells
    return tuple(_without_trailing_blanks(row) for row in rows)


def _without_trailing_blanks(row: list[Span]) -> Line:
    while row and row[-1].text.isspace():
        row = row[:-1]
    return tuple(row)


def render_columns(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as text: the heading, and the rows below it.

    Cells are left-aligned, with two spaces between columns. No cell is cut or wrapped.
    """
    table: list[list[Line]] = [[(Span(cell),) for cell in row] for row in (heading, *rows)]
    widths = [max(compute_width(row[column]) for row in table) for column in range(len(heading))]
    lines = (
        "  ".join(compute_text(compute_padded(cell, width)) for cell, width in zip(row, widths, strict=True))
        for row in table
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
