"""Where a report goes: to standard output or to a file, in the form that was asked for."""

import sys
from enum import StrEnum
from pathlib import Path

from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.output import write_atomically
from ligerdiag.report.model import CheckReport


class Format(StrEnum):
    """How a report is written."""

    TERMINAL = "terminal"
    JSON = "json"


def write_report(report: CheckReport, *, form: Format, output: Path | None, verbose: bool, code: ExitCode) -> None:
    """Writes the report to standard output; with a file, writes it there and the table to standard output."""
    from ligerdiag.report.json import render_json
    from ligerdiag.report.terminal import compute_colour, compute_stream_width, render_terminal

    def render_table_here() -> str:
        colour, width = compute_colour(sys.stdout), compute_stream_width(sys.stdout)
        return render_terminal(report, width=width, colour=colour, verbose=verbose)

    match form, output:
        case Format.JSON, None:
            sys.stdout.write(render_json(report, exit_code=code))
        case Format.TERMINAL, None:
            sys.stdout.write(render_table_here())
        case Format.JSON, Path():
            write_atomically(output, render_json(report, exit_code=code))
            sys.stdout.write(render_table_here())
        case Format.TERMINAL, Path():
            write_atomically(output, render_terminal(report, verbose=verbose))
            sys.stdout.write(render_table_here())
