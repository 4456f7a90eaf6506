"""Writes the answer of `bisect` and `diff` to standard output or to a file, in the requested form."""

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.output import write_atomically
from ligerdiag.report.bisection import Bisection

if TYPE_CHECKING:
    from ligerdiag.report.difference import DifferenceReport


class AnswerFormat(StrEnum):
    """The format of an answer."""

    TERMINAL = "terminal"
    JSON = "json"


def write_bisections(
    bisections: Sequence[Bisection], *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes the answers to standard output; with a file, writes them there and the table to standard output."""
    from ligerdiag.report.bisection_json import render_bisections_json
    from ligerdiag.report.terminal import render_bisections

    def render_text(width: int | None, colour: bool) -> str:
        return render_bisections(bisections, width=width, colour=colour, verbose=verbose)

    _write(form, output, render_text, lambda: render_bisections_json(bisections, exit_code=code))


def write_differences(
    report: "DifferenceReport", *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes the same of a comparison."""
    from ligerdiag.report.difference_json import render_differences_json
    from ligerdiag.report.terminal import render_difference_report

    def render_text(width: int | None, colour: bool) -> str:
        return render_difference_report(report, width=width, colour=colour, verbose=verbose)

    _write(form, output, render_text, lambda: render_differences_json(report, exit_code=code))


def _write(
    form: AnswerFormat,
    output: Path | None,
    render_text: Callable[[int | None, bool], str],
    render_data: Callable[[], str],
) -> None:
    """render_text: from the columns of the terminal, None for a file, and whether to colour."""
    from ligerdiag.report.terminal import compute_colour, compute_stream_width

    if output is not None:
        write_atomically(output, render_data() if form is AnswerFormat.JSON else render_text(None, False))
    if form is AnswerFormat.JSON and output is None:
        sys.stdout.write(render_data())
    else:
        sys.stdout.write(render_text(compute_stream_width(sys.stdout), compute_colour(sys.stdout)))
