"""Plain columns for short listings."""

from collections.abc import Iterable, Sequence

from ligerdiag.report.spans import Line, Span, compute_padded, compute_text, compute_width


def render_columns(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns the rows under their heading, left-aligned, two spaces apart, one line each; nothing is cut or
    wrapped."""
    table: list[list[Line]] = [[(Span(cell),) for cell in row] for row in (heading, *rows)]
    widths = [max(compute_width(row[column]) for row in table) for column in range(len(heading))]
    lines = (
        "  ".join(compute_text(compute_padded(cell, width)) for cell, width in zip(row, widths, strict=True))
        for row in table
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
