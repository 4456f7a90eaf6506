"""`ligerdiag inspect` and `ligerdiag report`: say whether schedules that somebody else compiled are right."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_WITHOUT_EXPECTATION, PRECEDENCE, FailOn, compute_exit_code, render_table
from ligerdiag.cli.options import (
    BudgetOptions,
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
    parse_outputs,
    require_html_directory,
    write_html,
    write_report,
    write_statistics,
)
from ligerdiag.cli.verbosity import parse_verbosity, show_progress
from ligerdiag.ending import watch_for_end
from ligerdiag.run_options import InspectOptions, Option

HELP = """Are schedules right that somebody else compiled? Reads the files that XLA dumped and says
for every output whether it is computed from the values that the kernels wrote. Then
replays the schedule on numbers, on the CPU, if the dump has the program. It needs
neither the program's Python nor a GPU.

\b
PATHS are any of:
  a directory of XLA_FLAGS=--xla_dump_to=DIR, with any number of modules and
    folders; those with custom calls are inspected
  a file: .hlo.pb or HLO text (compiled.as_text()), also gzipped; other files
    of its module are read from the same folder
  an artifact directory of `ligerdiag check`
  a file with StableHLO (.mlir, .stablehlo, .mlirbc), or with a program that
    `jax.export` has serialized: it is compiled for --target, without a GPU

\b
These files help:
  --xla_dump_hlo_as_proto   has the buffer assignment: which values share bytes
  the module before optimizations shows what the author meant: without it, few
    outputs can be decided
The report names missing files under "not covered"; they never make an output right.

\b
Modules with a hidden write are replayed, on arguments drawn by shape and dtype, or
on those of a run (--xla_dump_hlo_snapshots). If a dump does not show what the author
meant, numbers decide nothing. No code that a dump names is imported or run.
"""

EPILOG = f"""\b
Examples:
  XLA_FLAGS='--xla_dump_to=/tmp/dump --xla_dump_hlo_as_proto' python train.py
  ligerdiag inspect /tmp/dump
  ligerdiag inspect /tmp/dump --module '*train_step*'
  ligerdiag inspect step.txt.gz --format json
  ligerdiag inspect step.mlir --target a100,h100
                                                compiles StableHLO for two GPUs
  ligerdiag inspect /tmp/dump --no-replay       judges only the schedules
  ligerdiag inspect /tmp/dump --full --seed 1   replays also large programs
  ligerdiag inspect /tmp/dump --opaque          replays also without the kernels' code
  ligerdiag inspect /tmp/dump --memory-budget 60G
                                                fails what needs more

\b
Exit codes:
{render_table(MEANINGS_WITHOUT_EXPECTATION)}

{PRECEDENCE}
"""


@dataclass(frozen=True, kw_only=True)
class ModuleLine(ReplayBounds, BudgetOptions, RuleOptions, InspectOptions):
    """The options that `inspect` and `report` share: which modules to inspect, how, and what makes the run fail."""

    fail_on: Annotated[
        FailOn | None, Option("--fail-on", help="Lowest severity of a finding that fails the run. [default: warning]")
    ] = None
    strict: Annotated[
        bool | None,
        Option(
            "--strict/--no-strict",
            help="Exit with 4 if a module is inconclusive, and with 1 if a suppression is unused or gives no reason.",
        ),
    ] = None
    config: Config = None
    quiet: Quiet = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show all evidence, and the numbers of each output.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class InspectLine(ModuleLine):
    """The options of `inspect`."""

    format: ReportFormat = Format.TERMINAL
    output: ReportOutputs = ()
    time_limit: TimeLimit = None
    html: Html = None


def run_inspect(line: InspectLine) -> None:
    """Runs the inspection, writes the report, and ends the process with the exit code."""
    _inspect(line, parse_outputs(line.output, line.format), html=line.html, time_limit=line.time_limit)


def _inspect(line: ModuleLine, outputs: Outputs, *, html: Path | None, time_limit: float | None) -> None:
    from ligerdiag import api

    verbosity = parse_verbosity(quiet=line.quiet, verbose=line.verbose)
    if html is not None:
        require_html_directory(html)
    settings = read_settings(line.config, fail_on=line.fail_on, strict=line.strict, inspected=line.paths)
    options = fill_options(
        InspectOptions,
        line,
        bounds=line.make_bounds(),
        budgets=line.make_budgets(settings.config),
        suppress=(*settings.config.suppress, *line.make_entries()),
        effects=settings.config.effects,
        targets=parse_targets(line.targets),
        notes=settings.notes,
        view=html is not None or outputs.has(Format.ISSUE),
    )
    with watch_for_end(time_limit):
        with show_progress(verbosity) as show:
            report = api.inspect(options, show)
        fail_on, strict = settings.fail_on, settings.strict
        code = compute_exit_code(report, fail_on=fail_on, strict=strict)
        write_report(report, outputs, verbosity=verbosity, code=code, fail_on=fail_on, strict=strict)
        if line.statistics:
            write_statistics(report, outputs)
        if html is not None:
            write_html(report, html)
    raise typer.Exit(code)


inspect = make_command(
    InspectLine,
    run_inspect,
    "paths module targets toolchain format output select ignore fail_on strict timeout time_limit cache_directory replay "
    "replay_seconds replay_memory full opaque seed memory_budget copy_budget config source_roots quiet verbose "
    "statistics html",
)

DEFAULT_DIRECTORY = Path("ligerdiag-report")

REPORT_HELP = """Writes pages for a browser on modules that XLA compiled: the memory that kernels overwrite
over time, its readers, the path to each output and the writes that it misses, the
schedule and the HLO. One self-contained file for each module, and an index.

\b
PATHS are those of `ligerdiag inspect`: a directory of XLA_FLAGS=--xla_dump_to=DIR,
.hlo.pb or HLO text, an artifact directory of `ligerdiag check`, StableHLO. For cases use
`ligerdiag check --html DIR`.
"""

REPORT_EPILOG = f"""\b
Examples:
  ligerdiag report /tmp/dump                    then open ligerdiag-report/index.html
  ligerdiag report step.txt.gz --html pages
  ligerdiag report /tmp/dump --module '*train_step*'

\b
Exit codes:
{render_table(MEANINGS_WITHOUT_EXPECTATION)}

{PRECEDENCE}
"""


@dataclass(frozen=True, kw_only=True)
class ReportLine(ModuleLine):
    """The options of `report`."""

    html: Annotated[
        Path,
        Option(
            "--html",
            metavar="DIR",
            help="Folder for the pages. It must be new, be empty, or have an older report, whose pages are replaced.",
        ),
    ] = DEFAULT_DIRECTORY


def run_report(line: ReportLine) -> None:
    """Inspects the modules, writes the HTML pages, and ends the process with the exit code of the inspection."""
    _inspect(line, parse_outputs((), Format.TERMINAL), html=line.html, time_limit=None)


report = make_command(
    ReportLine,
    run_report,
    "paths html module targets toolchain select ignore fail_on strict timeout cache_directory replay replay_seconds "
    "replay_memory full opaque seed memory_budget copy_budget config source_roots quiet verbose statistics",
)
