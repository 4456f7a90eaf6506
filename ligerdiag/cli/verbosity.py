"""Defines how much of a run the terminal shows: `--quiet`, the default, or `--verbose`."""

import sys
from contextlib import AbstractContextManager, nullcontext
from enum import Enum

from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, OnProgress


class Verbosity(Enum):
    """How much of a report the terminal shows. The formats for programs are always complete."""

    QUIET = "quiet"
    """Shows only the findings that count, the reasons why a case is not as expected, and the last line; no progress."""
    USUAL = "usual"
    VERBOSE = "verbose"
    """Also shows the numbers, all evidence, every case, and the text that the user's code prints."""


def parse_verbosity(*, quiet: bool, verbose: bool) -> Verbosity:
    """Returns the verbosity that the options `--quiet` and `--verbose` set. Raises InputError if both are given."""
    if quiet and verbose:
        raise InputError("expected -q or -v but got both: -q leaves out most of the report, and -v adds to it")
    if quiet:
        return Verbosity.QUIET
    return Verbosity.VERBOSE if verbose else Verbosity.USUAL


def show_progress(verbosity: Verbosity) -> AbstractContextManager[OnProgress | None]:
    """Returns a context manager that shows progress on stderr.

    Its value is the function to call with each event, or None if the user wants no progress.
    """
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    return nullcontext() if verbosity is Verbosity.QUIET else ProgressDisplay(sys.stderr)


def render_text(report: CheckReport, verbosity: Verbosity, *, width: int | None = None, colour: bool = False) -> str:
    """Returns the report as text for the terminal, with a final newline. width, colour: as in `render_terminal`."""
    from ligerdiag.report.terminal.full_report import render_quietly, render_terminal

    if verbosity is Verbosity.QUIET:
        return render_quietly(report, width=width, colour=colour)
    return render_terminal(report, width=width, colour=colour, verbose=verbosity is Verbosity.VERBOSE)
