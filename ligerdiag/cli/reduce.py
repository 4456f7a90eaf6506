"""`ligerdiag reduce`: finds the smallest program that still shows a finding, an error of XLA, a disagreement or a
difference between two toolchains.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.issue_parts import add_bisections
from ligerdiag.cli.options import (
    Axes,
    Config,
    ReplayBounds,
    TimeLimit,
    fill_options,
    make_command,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import require_bisectable, require_writable, write_atomically
from ligerdiag.ending import RunEnded, watch_for_end, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.run_options import Option, ReduceOptions

if TYPE_CHECKING:
    from ligerdiag.ending import Ending
    from ligerdiag.reduce.reduce_case import Reduced

HELP = """What is the smallest program that still shows a finding? Removes outputs, operations, loops,
arguments and sizes of a case as long as the case still shows the same: the same finding
on the same operand of the same kernel, the same copy, the same error of XLA, the same
disagreement, or the same difference between two toolchains.

Writes one Python file without ligerdiag: the kernel, the program, and an assertion that
fails on a GPU if an output is wrong; beside it the optimized HLO. Each candidate is
compiled and judged as `ligerdiag check` does it. A second call with the same --output
continues where the first one ended.

Of a dump, it removes outputs and instructions as long as `ligerdiag inspect` says the same,
and writes HLO text and protobuf.
"""

MEANINGS = {
    ExitCode.AS_EXPECTED: "reduced as far as possible, even if nothing could be removed",
    ExitCode.INPUT: "usage or input error; the case has nothing to keep, or cannot be printed",
    ExitCode.NOT_ANALYSED: "the --time-limit was reached; the smallest program so far is written",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the smallest program so far is written",
    ExitCode.TERMINATED: "ended by SIGTERM; the smallest program so far is written",
}

EPILOG = f"""\b
Examples:
  ligerdiag reduce 'seed_flce[False-float32-True-1-4-32-16]' --output stale.py
  ligerdiag reduce mine.py --rule LD027 --output copied.py
  ligerdiag reduce mine.py --toolchains 0.6,default
  ligerdiag reduce mine.py --numbers --time-limit 600
  ligerdiag reduce mine.py --format issue --bisect flags > issue.md
                                                the body of a bug report
  ligerdiag reduce /tmp/dump --output small.py

\b
Exit codes:
{render_table(MEANINGS)}
"""


class ReductionFormat(StrEnum):
    """The form of the text that `reduce` writes to standard output. It writes files as well."""

    TERMINAL = "terminal"
    ISSUE = "issue"


@dataclass(frozen=True, kw_only=True)
class ReduceLine(ReplayBounds, ReduceOptions):
    """The options of `reduce`: which symptom (such as a finding) to keep, and where the program goes."""

    format: Annotated[
        ReductionFormat,
        Option("--format", help="What standard output gets: a summary, or the body of a bug report in Markdown."),
    ] = ReductionFormat.TERMINAL
    axes: Axes = ()
    time_limit: TimeLimit = None
    config: Config = None
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show no progress, only the result.")] = False


def run_reduce(line: ReduceLine) -> None:
    """Runs the reduction, writes the result, and ends the process with the exit code."""
    from ligerdiag import api
    from ligerdiag.ending import Ending

    require_writable(line.output)
    require_bisectable(line.axes, is_issue=line.format is ReductionFormat.ISSUE)
    settings = read_settings(line.config, fail_on=None, strict=None)
    options = fill_options(
        ReduceOptions,
        line,
        toolchains=parse_targets(line.toolchains),
        bounds=line.make_bounds(),
        effects=settings.config.effects,
    )

    def show(text: str) -> None:
        sys.stderr.write(text + "\n")

    if api.is_dump(line.selector):
        if line.format is ReductionFormat.ISSUE:
            raise InputError(
                "`--format issue` works only for a case: leave it out, as `reduce` prints only a summary for a dump"
            )
        _reduce_dump(options, None if line.quiet else show, line.time_limit)
    code, is_issue = ExitCode.AS_EXPECTED, line.format is ReductionFormat.ISSUE
    hlo = line.output.with_suffix(".hlo")
    try:
        with watch_for_end(line.time_limit) as watch:
            reduced, ending = api.reduce(options, None if line.quiet else show)
            write_atomically(line.output, reduced.text)
            if reduced.hlo:
                write_atomically(hlo, reduced.hlo)
            written = [f"`{line.output}`", *([f"`{hlo}`"] if reduced.hlo else [])]
            (sys.stderr if is_issue else sys.stdout).write(_summarize(reduced, written, ending))
            if is_issue:
                ending = _write_issue(line, options, reduced, ending or watch.missed)
    except RunEnded as end:
        sys.stderr.write(f"ended by {end.ending.value} before anything was known\n")
        raise typer.Exit(find_ending_code(end.ending)) from end
    if ending is not None:
        code = ExitCode.NOT_ANALYSED if ending is Ending.TIME_LIMIT else find_ending_code(ending)
    raise typer.Exit(code)


_SMALL = 1e-3
"""Greatest relative error that is no wrong number."""
_LUCKY = (
    "shows:   no wrong number, since this schedule runs in the right order by luck; the read in it is still unordered\n"
)


def _summarize(reduced: "Reduced", written: Sequence[str], ending: "Ending | None") -> str:
    return (
        f"kept:    {reduced.symptom.describe()}\n"
        f"before:  {reduced.before}\n"
        f"after:   {reduced.after}; {reduced.lines} lines of program\n"
        f"written: {' and '.join(written)}, after {reduced.candidates} candidates\n"
        + (f"replay:  relative errors {', '.join(f'{one:.2g}' for one in reduced.errors)}\n" if reduced.errors else "")
        + (_LUCKY if reduced.symptom.is_lucky and not any(one > _SMALL for one in reduced.errors) else "")
        + ("ended:   " + f"by {ending.value}; run the same command again to continue\n" if ending is not None else "")
    )


def _write_issue(
    line: ReduceLine, options: ReduceOptions, reduced: "Reduced", ending: "Ending | None"
) -> "Ending | None":
    """Writes the bug report to standard output, unless an event ended the run before the report could be made. Returns
    the event that ended the run or the bisections early; None if none did. ending: the event that has ended the run
    already, if any.
    """
    text = ""
    if ending is None:
        with work_until_ended(again=True) as work:
            text, ending = _describe_issue(line, options, reduced)
        ending = work.ending or ending
    sys.stdout.write(text)
    if ending is not None:
        lacks = "`--bisect` is incomplete" if text else "no bug report"
        sys.stderr.write(
            f"issue:   {lacks}, because {ending.value} ended the work; run the same command again to continue\n"
        )
    return ending


def _describe_issue(line: ReduceLine, options: ReduceOptions, reduced: "Reduced") -> "tuple[str, Ending | None]":
    """Returns the body of a bug report about the reduced program, which is judged as `ligerdiag check` does it, and the
    event that ended the search for what changes the result, if any. Raises RunEnded if the program was not judged.
    """
    from ligerdiag import api
    from ligerdiag.report.issue import ProgramSource

    attached = (line.output.name, *([line.output.with_suffix(".hlo").name] if reduced.hlo else []))
    program = ProgramSource(name=line.output.name, text=reduced.text, is_standalone=True)
    check = api.make_reduced_check(reduced, options)
    report = api.check(check)
    if report.interrupted:
        raise RunEnded(report.ended_by)
    toolchains = options.toolchains if len(options.toolchains) > 1 else ()
    axes = (*line.axes, Axis.TOOLCHAINS) if toolchains and Axis.TOOLCHAINS not in line.axes else line.axes
    bisections: list[Bisection] = []
    ending = add_bisections(bisections, report, axes, check, toolchains=toolchains)
    text = api.describe_issue(report, bisections=bisections, attached=attached, program=program, rule=line.rule)
    return text, ending


def _reduce_dump(options: ReduceOptions, show: Callable[[str], None] | None, time_limit: float | None) -> NoReturn:
    """Reduces a module of a dump, writes the result, and ends the process with the exit code."""
    from ligerdiag import api
    from ligerdiag.ending import Ending

    try:
        with watch_for_end(time_limit):
            reduced, ending = api.reduce_dump(options, show)
    except RunEnded as end:
        sys.stderr.write(f"ended by {end.ending.value} before anything was known\n")
        raise typer.Exit(find_ending_code(end.ending)) from end
    code = ExitCode.AS_EXPECTED
    if ending is not None:
        code = ExitCode.NOT_ANALYSED if ending is Ending.TIME_LIMIT else find_ending_code(ending)
    stem = options.output.with_suffix("")
    names = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".hlo", "_before.hlo")][: len(reduced.texts)]
    for path, text in zip(names, reduced.texts, strict=True):
        write_atomically(path, text)
    dump = stem.with_name(f"{stem.name}_dump")
    api.write_modules(reduced.modules, reduced.files, dump)
    bytes_kept = "with its bytes" if reduced.modules.optimized.HasField("buffer_assignment") else "without its bytes"
    sys.stdout.write(
        f"kept:    {reduced.symptom.describe()}\n"
        f"before:  {reduced.before}\n"
        f"after:   {reduced.after}\n"
        f"written: {', '.join(f'`{path}`' for path in names)} and `{dump}`, the same as protobuf, {bytes_kept}, after"
        f" {reduced.candidates} candidates\n"
        + ("ended:   " + f"by {ending.value}; run the same command again to continue\n" if ending is not None else "")
    )
    raise typer.Exit(code)


reduce = make_command(
    ReduceLine,
    run_reduce,
    "selector output format axes rule numbers target toolchains jobs timeout time_limit cache_directory replay_seconds"
    " replay_memory full config quiet",
)
