"""Assembles the report for a terminal, in full or for `--quiet`, adds colours, and shows progress; the only module that uses
the library rich.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self, TextIO

from ligerdiag.model.report import CaseReport, CheckReport, Progress, Status
from ligerdiag.report.causes import FindingGroup, compute_shared_groups, compute_single_groups
from ligerdiag.report.compared.report_comparison import ReportComparison
from ligerdiag.report.comparisons import Bisection, DifferenceReport
from ligerdiag.report.status import list_counted, list_unexcused
from ligerdiag.report.terminal.case_table import render_table
from ligerdiag.report.terminal.comparison_tables import render_bisection, render_differences, render_report_comparison
from ligerdiag.report.terminal.diagnostics import TroubleKind, list_troubles
from ligerdiag.report.terminal.finding_text import render_allowed, render_group, render_unused
from ligerdiag.report.terminal.memory_text import render_memories
from ligerdiag.report.terminal.spans import BLANK, Line, Span, Style, compute_text, compute_wrapped
from ligerdiag.report.terminal.summary import (
    name_targets,
    render_counted_cases,
    render_coverage,
    render_devices,
    render_notes,
    render_replays,
    render_totals,
    render_troubles,
    render_uncompared,
)
from ligerdiag.report.words.tuning_words import describe_tuning
from ligerdiag.text import compute_printable, compute_without_commands

MIN_WIDTH = 40
LINE_EVERY_SECONDS = 1.0
MOST_EXPECTED = 12
"""At most this many cases that are as expected are listed without `--verbose`."""

_TROUBLED = frozenset({Status.UNEXPECTED, Status.DISAGREEMENT, Status.ERROR})

_LOOKS: Mapping[Style, str] = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.FAINT: "dim",
    Style.GOOD: "green",
    Style.BAD: "bold red",
    Style.DOUBTFUL: "cyan",
    Style.FRESH: "green",
    Style.LATENT: "yellow",
    Style.UNKNOWN: "cyan",
    Style.CLOBBERED: "magenta",
    Style.STALE: "bold red",
    Style.ERROR: "bold red",
    Style.WARNING: "bold yellow",
    Style.NOTE: "bold cyan",
}


def render_terminal(
    report: CheckReport, *, width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Returns the whole report as text, with a final newline.

    It has the table of cases, findings, troubles, memory, coverage, replay and totals. If more than `MOST_EXPECTED` cases
    are as expected, these are only counted.

    width: columns of the terminal; None for a file or a pipe, where no line is wrapped. colour: whether to use ANSI
    colours. verbose: lists all cases, adds the numbers of every output, and shows the findings of each case on their own,
    also those of cases that are as expected.
    """
    several = len(report.targets) > 1
    expected = [case for case in report.cases if case.status is Status.EXPECTED]
    others = [case for case in report.cases if case.status is not Status.EXPECTED]
    counted = [case for case in expected if not list_unexcused(case)]
    if verbose or len(counted) <= MOST_EXPECTED:
        counted = []
    unlisted = {(case.id, case.target) for case in counted}
    expected = [case for case in expected if (case.id, case.target) not in unlisted]
    listed = replace(report, cases=tuple(case for case in report.cases if (case.id, case.target) not in unlisted))
    lines: list[Line] = [*render_table(listed, width, verbose=verbose), BLANK] if listed.cases else []

    def add(groups: tuple[FindingGroup, ...]) -> None:
        for group in groups:
            lines.extend(render_group(group, width=width, several_targets=several, verbose=verbose))

    groups = compute_single_groups(expected) if verbose else compute_shared_groups(expected)
    if groups:
        lines += [(Span("findings in cases that are as expected", Style.STRONG),), BLANK]
    add(groups)
    if groups and any(list_counted(case.findings) or case.status in _TROUBLED for case in others):
        lines += [(Span("the other cases", Style.STRONG),), BLANK]
    for cases in [[case] for case in others] if verbose else _list_same(others):
        add(compute_single_groups(cases) if len(cases) == 1 else compute_shared_groups(cases))
        lines.extend(render_troubles(cases, width=width, verbose=verbose))
    lines.extend(render_counted_cases(counted, width))
    lines.extend(render_allowed(listed, width=width, verbose=verbose))
    lines.extend(render_unused(report, width))
    if report.cases:
        lines.extend(render_memories(report, width=width, verbose=verbose))
        lines.extend(render_tunings(report, width=width, verbose=verbose))
        lines.extend(render_coverage(report, width))
        lines.extend(render_replays(report, width=width, verbose=verbose))
        lines.extend(render_devices(report, width=width, verbose=verbose))
        lines.extend(render_uncompared(report, width=width, verbose=verbose))
    lines.extend(render_notes(report, width, verbose=verbose))
    lines.extend(render_totals(report, width))
    return _render_lines(lines, colour=colour)


def _list_same(cases: Sequence[CaseReport]) -> list[list[CaseReport]]:
    """Returns the cases, in their order, with the results of one case on all targets together."""
    found: dict[str, list[CaseReport]] = {}
    for case in cases:
        found.setdefault(case.id, []).append(case)
    return list(found.values())


def render_quietly(report: CheckReport, *, width: int | None = None, colour: bool = False) -> str:
    """Returns the report in the short form of the option `--quiet`, with a final newline.

    width, colour: as in `render_terminal`.
    """
    return _render_lines([*render_quiet_lines(report, width=width)], colour=colour)


def render_bisections(
    bisections: Sequence[Bisection], *, width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Returns the bisections as text, one after the other, with a final newline. Options are as in `render_terminal`."""
    lines: list[Line] = []
    for bisection in bisections:
        lines += [BLANK, BLANK] if lines else []
        lines += render_bisection(bisection, width=width, verbose=verbose)
    return _render_lines(lines, colour=colour)


def render_difference_report(
    report: DifferenceReport, *, width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Returns the result of `diff` as text, with both compiles of each case side by side and a final newline.

    Options are as in `render_terminal`.
    """
    return _render_lines([*render_differences(report, width, verbose=verbose)], colour=colour)


def render_report_comparison_text(
    comparison: ReportComparison, *, width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Returns the comparison of two reports as text, with a final newline. Options are as in `render_terminal`."""
    return _render_lines([*render_report_comparison(comparison, width, verbose=verbose)], colour=colour)


def _render_lines(lines: list[Line], *, colour: bool) -> str:
    if colour:
        return _paint(lines)
    return "".join(f"{compute_without_commands(compute_text(line))}\n" for line in lines)


def compute_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether to write colours to the stream.

    The answer is no if NO_COLOR is set. Otherwise it is yes if FORCE_COLOR is set, or if the stream is a terminal with
    colours.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def compute_stream_width(stream: TextIO) -> int | None:
    """Returns the number of columns of the terminal to which the stream writes, or None if it is no terminal."""
    return max(MIN_WIDTH, shutil.get_terminal_size().columns) if stream.isatty() else None


def _paint(lines: list[Line]) -> str:
    from rich.color import ColorSystem
    from rich.style import Style as RichStyle

    looks = {style: RichStyle.parse(look) for style, look in _LOOKS.items()}

    def paint(line: Line) -> str:
        text = compute_text(line)
        if compute_without_commands(text) != text:
            line = (Span(compute_without_commands(text)),)
        return "".join(looks[span.style].render(span.text, color_system=ColorSystem.STANDARD) for span in line)

    return "".join(f"{paint(line)}\n" for line in lines)


class ProgressDisplay:
    """A context manager that shows the progress of a run on a stream.

    On a terminal it draws a bar; elsewhere it writes a line at most once a second.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._last_line = -LINE_EVERY_SECONDS
        self._bar = _Bar(stream) if stream.isatty() and os.environ.get("TERM") != "dumb" else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Shows one event of the run; never raises if the stream is closed."""
        best = f"; so far: {progress.best}" if progress.best else ""
        label = compute_printable(f"{progress.phase} {progress.case_id} {progress.target}".rstrip() + best)
        label = compute_without_commands(label)
        if self._bar is not None:
            self._bar.show(label, progress.done, progress.total)
            return
        now = self._now()
        if now - self._last_line < LINE_EVERY_SECONDS:
            return
        self._last_line = now
        with suppress(OSError):
            self._stream.write(f"{progress.done}/{progress.total} {label}\n")
            self._stream.flush()


class _Bar:
    """A progress bar made with rich, which disappears when it stops."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=Console(file=stream), transient=True)
        self._task = self._progress.add_task("starting", total=None)

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def show(self, label: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=label, completed=done, total=total or None)


MAX_TUNED = 12
"""At most this many cases have a line about their tuning; `--verbose` and JSON have all of them."""


def render_tunings(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns a line for each case about the choices of XLA's autotuner. A case that is compiled with a file of choices
    always has such a line; with `verbose`, so has every other case for which the autotuner has something to choose. If there
    are too many cases for a line each, the cases with the most missing entries come first.
    """
    said = [(case, text) for case in report.cases if case.tuning and (text := describe_tuning(case.tuning))]
    if not verbose:
        said = [(case, text) for case, text in said if case.tuning and case.tuning.file]
    shown = said
    if not verbose and len(said) > MAX_TUNED:
        shown = sorted(said, key=lambda pair: -_count_open(pair[0]))[: MAX_TUNED - 1]
    lines: list[Line] = []
    for case, text in shown:
        label = "tuned" if case.tuning and case.tuning.file else "not tuned"
        place = "" if len(report.cases) == 1 else f" `{case.id}` on {case.target}"
        lines += compute_wrapped((Span(f"{label}{place}: ", Style.STRONG), Span(text)), width, 4)
    if len(shown) < len(said):
        lines += compute_wrapped(
            (Span("tuned: ", Style.STRONG), Span(f"{len(said) - len(shown)} more: -v lists them")), width, 4
        )
    return tuple(lines)


def _count_open(case: CaseReport) -> int:
    return len(case.tuning.open) if case.tuning else 0


_OPEN = frozenset({TroubleKind.INCONCLUSIVE, TroubleKind.UNEXPLAINED, TroubleKind.NO_NUMBERS})
"""The kinds of trouble that the usual report shows only in its table and below it."""


def render_quiet_lines(report: CheckReport, *, width: int | None) -> tuple[Line, ...]:
    """Returns the lines of `--quiet`. They are the findings that count, reasons why a case is not as expected or undecided,
    suppressions that allowed nothing or give no reason, notes on the run, and the last line.

    width: as in `render_terminal`.
    """
    several = len(report.targets) > 1
    lines: list[Line] = []
    for group in compute_shared_groups(replace(case, findings=list_unexcused(case)) for case in report.cases):
        lines.extend(render_group(group, width=width, several_targets=several, verbose=False))
    lines.extend(render_troubles(report.cases, width=width, verbose=False))
    lines.extend(_render_open(report, width))
    lines.extend(render_unused(report, width))
    lines.extend(render_notes(report, width))
    lines.extend(render_totals(report, width))
    return tuple(lines)


def _render_open(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns a line for each case in which something could not be decided, or whose numbers are missing because of a
    fault. A line that is the same on several targets of a case appears once.
    """
    found: dict[tuple[str, TroubleKind, str], list[str]] = {}
    for case in report.cases:
        for trouble in (one for one in list_troubles(case) if one.kind in _OPEN):
            found.setdefault((case.id, trouble.kind, trouble.message), []).append(case.target)
    lines: list[Line] = []
    for (case_id, kind, message), targets in found.items():
        head = (
            Span(kind.value.replace("-", " "), Style.DOUBTFUL),
            Span(f": {name_targets(case_id, targets)}: {message}"),
        )
        lines += compute_wrapped(head, width, 4)
    return (*lines, BLANK) if lines else ()
