"""Where an answer, a baseline or a report's file goes: there as a whole or not at all."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport
from ligerdiag.report.comparisons import Bisection

if TYPE_CHECKING:
    from ligerdiag.api.judging import CheckOptions
if TYPE_CHECKING:
    from ligerdiag.report.comparisons import DifferenceReport


def require_writable(path: Path, option: str = "--output") -> None:
    """Raises InputError, before any work is done, when a report cannot be written to `path`."""
    if path.is_dir():
        raise InputError(f"expected a file for {option} but `{path}` is a directory")
    if not path.parent.is_dir():
        raise InputError(f"expected the directory of {option} to exist but `{path.parent}` does not")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"expected to be allowed to write to `{path.parent}` for {option}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes the content, text as UTF-8, beside `path` and moves it there; a special file such as a pipe is written to
    directly.

    Raises InputError when the disk says no.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        umask = os.umask(0)
        os.umask(umask)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"expected to write `{path}` but: {error.strerror or error}") from error


def require_recordable(path: Path) -> None:
    """Raises InputError, before any work is done, when a baseline cannot be written to `path` or joined to what is there."""
    from ligerdiag import api

    require_writable(path, option="--record")
    if path.exists():
        api.load_baseline(path)


def write_record(report: CheckReport, options: "CheckOptions", path: Path) -> None:
    """Says on standard error what was recorded, or why nothing was. Raises InputError as `render_record` does."""
    from ligerdiag import api

    recorded = len(api.list_recordable(report))
    if report.interrupted:
        said = "nothing: the run was interrupted"
    elif not recorded:
        said = "nothing: no case could be analysed"
    else:
        write_atomically(path, api.render_record(report, options, path))
        left = len(report.cases) - recorded
        said = f"{recorded} schedules in {path}" + (f"; {left} could not be analysed" if left else "")
    sys.stderr.write(f"recorded {said}\n")


class AnswerFormat(StrEnum):
    TERMINAL = "terminal"
    JSON = "json"


def write_bisections(
    bisections: Sequence[Bisection], *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes the answers to standard output; with a file, writes them there and the table to standard output."""
    from ligerdiag.report.json import render_bisections_json
    from ligerdiag.report.terminal.full_report import render_bisections

    def render_text(width: int | None, colour: bool) -> str:
        return render_bisections(bisections, width=width, colour=colour, verbose=verbose)

    _write(form, output, render_text, lambda: render_bisections_json(bisections, exit_code=code))


def write_differences(
    report: "DifferenceReport", *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes the same of a comparison."""
    from ligerdiag.report.json import render_differences_json
    from ligerdiag.report.terminal.full_report import render_difference_report

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
    from ligerdiag.report.terminal.full_report import compute_colour, compute_stream_width

    if output is not None:
        write_atomically(output, render_data() if form is AnswerFormat.JSON else render_text(None, False))
    if form is AnswerFormat.JSON and output is None:
        sys.stdout.write(render_data())
    else:
        sys.stdout.write(render_text(compute_stream_width(sys.stdout), compute_colour(sys.stdout)))
