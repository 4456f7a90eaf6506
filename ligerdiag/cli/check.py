"""`ligerdiag check`: says whether the schedules that XLA makes of the user's cases are right."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.compare import run_toolchain_comparison
from ligerdiag.cli.exit_codes import (
    PRECEDENCE,
    ExitCode,
    FailOn,
    choose_exit_code,
    compute_case_code,
    compute_exit_code,
    find_ending_code,
    render_table,
)
from ligerdiag.cli.fix import print_fixes, require_fixable
from ligerdiag.cli.issue_parts import make_issue_parts
from ligerdiag.cli.options import (
    Axes,
    BudgetOptions,
    CommandSettings,
    Config,
    Html,
    Quiet,
    ReplayBounds,
    ReportFormat,
    ReportOutputs,
    RuleOptions,
    TimeLimit,
    fill_options,
    make_command,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import (
    Format,
    Outputs,
    parse_comparison_outputs,
    parse_outputs,
    require_bisectable,
    require_html_directory,
    require_known_file,
    require_recordable,
    write_atomically,
    write_durations,
    write_html,
    write_known,
    write_printed,
    write_record,
    write_report,
    write_statistics,
)
from ligerdiag.cli.verbosity import Verbosity, parse_verbosity, show_progress
from ligerdiag.codec import pack_record
from ligerdiag.ending import watch_for_end
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.run_options import DEFAULT_TARGETS, CheckOptions, Option, Targets
from ligerdiag.toolchains.toolchain_table import DEFAULT

if TYPE_CHECKING:
    from ligerdiag.api.last_run import RunPolicy
    from ligerdiag.model.report import CaseReport, CheckReport

HELP = """Are these schedules right? Compiles each case for a GPU, which need not be here, and says
for every output whether it is computed from the values that the kernels wrote. Then
replays the schedule on numbers, on the CPU, and says whether they agree.

SELECTORS choose cases by id or glob ('seed_flce[False-*]'), by the path of a file
of yours that defines CASE or CASES (mine.py, 'mine.py::ID'), or by module:name.
Without any: all of cases/, here or above, up to the project's pyproject.toml.

\b
Verdicts on an output:
  fresh      computed as the program means it, and something forces the order
  STALE      misses a kernel's write: the value is wrong
  latent     right in this schedule by luck: nothing forces the order
  clobbered  sees a kernel's write, but needs the original value
  unknown    could not be decided; never counts as right

\b
Results of the replay:
  agrees       the numbers agree with the verdicts
  2 of 4       they agree for that many outputs; the other numbers cannot tell
  1 unknown    one more output is unknown: no numbers say anything about it
  cannot tell  the numbers of latent outputs would be the same if these were stale
  lossy 0.25   right except for the precision; 0.25 is the relative error
  DISAGREES    verdict and numbers contradict: the report lists possible causes
  undecided    the numbers cannot tell
  undefined    no numbers can: the program leaves the outputs undefined
  (2 of 32)    only that many iterations of the most expensive loop were replayed,
               as all are estimated above the bounds (see --full). Such numbers
               can show an error, but not that later iterations have none
  too large    estimated above the bounds, see --full
  not covered  contains something that replay does not compute
"""

EPILOG = f"""\b
Examples:
  ligerdiag check                               all cases; the first run compiles,
                                                later ones use the cache
  ligerdiag check 'seed_flce[False-*]'          some of them
  ligerdiag check mine.py --target a100,h100    your own file, two GPUs side by side
  ligerdiag check -x                            stops at the first case that is not as expected
  ligerdiag check --lf -v                       those of the last run again, with all details
  ligerdiag check --format json --output report.json
  ligerdiag check --format github --output sarif=out.sarif --output junit=out.xml
  ligerdiag check --html report                 as pages: report/index.html
  ligerdiag check --no-replay                   judges only the schedules
  ligerdiag check --orders 20                   replays also in 20 other orders that XLA
                                                may choose: do fresh outputs change?
  ligerdiag check --opaque                      replays also without the kernels' code
  ligerdiag check --device --time-limit 1500    on a machine that you have for half an
                                                hour: reports the results by then
  ligerdiag check --full --timeout 3600         replays also large programs
  ligerdiag check 'seed_*' --toolchain seed     as jax 0.4.34 compiles them
  ligerdiag check --toolchain 0.10,default      both, side by side; see `compare`
  ligerdiag check --scheduler tcp://head:8786   on the workers of a Dask cluster
  ligerdiag check --record schedules.json       before an upgrade
  ligerdiag check --baseline schedules.json     after it: what moved?
  ligerdiag check --record-known known.json     on the first day: writes all findings
  ligerdiag check --known known.json            from then on: only new ones fail
  ligerdiag check mine.py --format issue --bisect flags
                                                the body of a bug report
  ligerdiag check mine.py --fix                 and the diffs that make it right
  ligerdiag check --autotune-results h100.pbtxt
                                                as a tuned H100 would compile them
  ligerdiag check --memory-budget 60G --copy-budget 1M
                                                fails what needs or copies more

\b
Exit codes:
{render_table()}

{PRECEDENCE}
"""


@dataclass(frozen=True, kw_only=True)
class CheckLine(ReplayBounds, BudgetOptions, RuleOptions, CheckOptions):
    """The options of `check`: what to check and how, and where the report goes."""

    targets: Targets = ()
    toolchain: Annotated[
        str,
        Option(
            "--toolchain",
            metavar="NAME",
            help="Toolchain to compile with; `ligerdiag toolchains` lists them. Give two, as A,B, to compare their reports "
            "as `ligerdiag compare` does.",
        ),
    ] = DEFAULT
    format: ReportFormat = Format.TERMINAL
    output: ReportOutputs = ()
    time_limit: TimeLimit = None
    fail_on: Annotated[
        FailOn | None,
        Option(
            "--fail-on",
            help="Lowest severity with which a finding fails a case that has no expectation. [default: warning]",
        ),
    ] = None
    strict: Annotated[
        bool | None,
        Option(
            "--strict/--no-strict",
            help="Exit with 4 if a case is inconclusive, and with 1 if a suppression is unused or gives no reason.",
        ),
    ] = None
    config: Config = None
    record_file: Annotated[
        Path | None,
        Option("--record", metavar="FILE", help="Record the schedules in FILE as a baseline for a later --baseline."),
    ] = None
    known_file: Annotated[
        Path | None,
        Option(
            "--record-known", metavar="FILE", help="Write the findings to FILE, so that --known FILE allows them later."
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        Option("--scheduler", metavar="ADDRESS", help="Check on the workers of a Dask scheduler; see docs/sweep.md."),
    ] = None
    exit_first: Annotated[
        bool,
        Option("--exitfirst", "-x", help="Stop at the first case that is not as expected; list the rest as not run."),
    ] = False
    last_failed: Annotated[
        bool,
        Option(
            "--last-failed",
            "--lf",
            help="Run only the cases that were not as expected, or not run, in the last run of this folder; run all if "
            "there are none.",
        ),
    ] = False
    durations: Annotated[
        int | None,
        Option(
            "--durations",
            min=0,
            metavar="N",
            help="Print the N slowest cases, after the report, with the seconds of each phase; 0 prints all.",
        ),
    ] = None
    axes: Axes = ()
    fix: Annotated[
        bool,
        Option("--fix", help="After the report, print the diffs that make the cases right; see `ligerdiag fix`."),
    ] = False
    quiet: Quiet = False
    verbose: Annotated[
        bool,
        Option(
            "--verbose",
            "-v",
            help="Show the numbers of each output, the findings of all cases, even of cases that are as expected, and the "
            "text that your code prints.",
        ),
    ] = False
    html: Html = None
    data: Annotated[
        Path | None,
        Option("--data", help="Write the whole report to this file, for the pages of a sweep.", hidden=True),
    ] = None


def run_check(line: CheckLine) -> None:
    """Runs the check, writes the report, and ends the process with the exit code."""
    verbosity = parse_verbosity(quiet=line.quiet, verbose=line.verbose)
    toolchains = parse_targets((line.toolchain,))
    if len(toolchains) != 1:
        _run_comparison(line, toolchains)
        return
    outputs = parse_outputs(line.output, line.format)
    if line.fix:
        require_fixable(outputs)
    require_bisectable(line.axes, is_issue=outputs.has(Format.ISSUE))
    if line.html is not None:
        require_html_directory(line.html)
    if line.record_file is not None:
        require_recordable(line.record_file)
    if line.known_file is not None:
        require_known_file(line.known_file)
    settings = read_settings(line.config, fail_on=line.fail_on, strict=line.strict)
    options, fail_on, strict = _make_options(line, settings), settings.fail_on, settings.strict
    options = replace(options, view=options.view or outputs.has(Format.ISSUE))
    with watch_for_end(line.time_limit) as watch:
        try:
            report = _check(line, options, settings, verbosity)
        except LigerdiagError as error:
            _write_refusal(error, options, outputs, verbosity)
            raise
        if verbosity is Verbosity.VERBOSE:
            write_printed(report, outputs)
        with show_progress(verbosity) as show:
            parts = make_issue_parts(report, outputs, line.axes, options=options, watch=watch, on_progress=show)
        code = compute_exit_code(report, fail_on=fail_on, strict=strict)
        code = code if parts.ending is None else choose_exit_code((code, find_ending_code(parts.ending)))
        write_report(
            report,
            outputs,
            verbosity=verbosity,
            code=code,
            fail_on=fail_on,
            strict=strict,
            bisections=parts.bisections,
            module=parts.module,
        )
        if line.statistics:
            write_statistics(report, outputs)
        if line.durations is not None:
            write_durations(report, line.durations, outputs)
        if line.html is not None:
            write_html(report, line.html)
        if line.data is not None:
            write_atomically(line.data, pack_record(report))
        if line.record_file is not None:
            write_record(report, options, line.record_file)
        if line.known_file is not None:
            write_known(report, line.known_file)
        if line.fix and parts.ending is None and report.cut_by is None:
            ending = print_fixes(options, verbosity, watch)
            code = code if ending is None else choose_exit_code((code, find_ending_code(ending)))
    raise typer.Exit(code)


def _make_options(line: CheckLine, settings: CommandSettings) -> CheckOptions:
    usual = settings.config.targets or DEFAULT_TARGETS
    return fill_options(
        CheckOptions,
        line,
        targets=parse_targets(line.targets) or usual,
        usual_targets=usual,
        bounds=line.make_bounds(),
        budgets=line.make_budgets(settings.config),
        suppress=(*settings.config.suppress, *line.make_entries()),
        effects=settings.config.effects,
        baseline=line.baseline or (settings.config.baseline if line.record_file is None else None),
        autotune_results=line.autotune_results or settings.config.autotune_results,
        known=line.known or (settings.config.known if line.known_file is None else None),
        record=line.record_file is not None,
        view=line.html is not None or line.data is not None,
    )


def _run_comparison(line: CheckLine, toolchains: tuple[str, ...]) -> None:
    """Checks the cases under two toolchains and compares the reports. Raises InputError for options that only make
    sense with a single report.
    """
    alone = {"--record": line.record_file, "--baseline": line.baseline, "--html": line.html, "--data": line.data}
    alone |= {"--record-known": line.known_file, "--known": line.known}
    alone |= {"--scheduler": line.scheduler, "--durations": line.durations}
    alone |= {"--fix": line.fix or None, "--bisect": line.axes or None}
    alone |= {"-x": line.exit_first or None, "--last-failed": line.last_failed or None, "-q": line.quiet or None}
    for option, value in alone.items():
        if value is not None:
            raise InputError(f"expected one toolchain with {option} but got {', '.join(toolchains)}")
    outputs = parse_comparison_outputs(line.output, line.format)
    settings = read_settings(line.config, fail_on=line.fail_on, strict=line.strict)
    options = replace(_make_options(line, settings), baseline=None, known=None)
    with watch_for_end(line.time_limit):
        run_toolchain_comparison(options, toolchains, outputs, verbose=line.verbose)


def _check(line: CheckLine, options: CheckOptions, settings: CommandSettings, verbosity: Verbosity) -> "CheckReport":
    from ligerdiag import api

    with show_progress(verbosity) as show:
        if line.scheduler is None:
            return api.check(options, show, _make_policy(line, settings))
        for option, is_given in (("-x", line.exit_first), ("--last-failed", line.last_failed)):
            if is_given:
                raise InputError(f"`{option}` cannot be combined with `--scheduler`: a cluster runs all selected cases")
        from ligerdiag.api.judging import ignore_progress
        from ligerdiag.sweep.cluster_check import check_on_cluster

        return check_on_cluster(options, line.scheduler, show or ignore_progress)


def _make_policy(line: CheckLine, settings: CommandSettings) -> "RunPolicy":
    from ligerdiag.api.last_run import RunPolicy

    def fails(case: "CaseReport") -> bool:
        code = compute_case_code(case, fail_on=settings.fail_on, strict=settings.strict)
        return code is not ExitCode.AS_EXPECTED

    return RunPolicy(fails=fails, exit_first=line.exit_first, last_failed=line.last_failed)


_FOR_PEOPLE = (Format.TERMINAL, Format.ISSUE)
"""Formats that only people read."""


def _write_refusal(error: LigerdiagError, options: CheckOptions, outputs: Outputs, verbosity: Verbosity) -> None:
    """Writes a report that holds only the error, for programs that read reports; a person reads the line on stderr, and
    with `--verbose` what the user's code printed before.
    """
    from ligerdiag import api

    if verbosity is Verbosity.VERBOSE and error.printed:
        from ligerdiag.report.terminal.printed_text import render_lines

        sys.stderr.write(render_lines("printed", error.printed))
    readers = {path: form for path, form in outputs.files.items() if form not in _FOR_PEOPLE}
    if outputs.shown not in _FOR_PEOPLE or readers:
        refusal, code = api.describe_refusal(options, error), ExitCode(error.exit_code)
        shown = Format.TERMINAL if outputs.shown is Format.ISSUE else outputs.shown
        asked = replace(outputs, shown=shown, files=readers)
        write_report(refusal, asked, verbosity=verbosity, code=code, fail_on=FailOn.NEVER, strict=False)


check = make_command(
    CheckLine,
    run_check,
    "selectors targets exit_first last_failed format output jobs timeout time_limit select ignore fail_on strict "
    "cache_directory refresh replay replay_seconds replay_memory full rows orders opaque device config source_roots "
    "record_file baseline known_file known memory_budget copy_budget autotune_results toolchain scheduler quiet verbose "
    "statistics durations axes fix html data",
)
