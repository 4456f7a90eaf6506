"""`ligerdiag inspect` and `ligerdiag report`: schedules that somebody else compiled, judged, and as pages for a
browser.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_WITHOUT_EXPECTATION, PRECEDENCE, compute_exit_code, render_table
from ligerdiag.cli.options import (
    Config,
    EffectsCacheDir,
    Evidence,
    Full,
    InspectSourceRoots,
    Module,
    ModuleFailOn,
    ModuleStrict,
    ModuleTimeout,
    Paths,
    Replay,
    ReplayMemory,
    ReplaySeconds,
    ReportFormat,
    ReportOutputs,
    Seed,
    TimeLimit,
    parse_size,
    read_settings,
)
from ligerdiag.cli.report_output import Format, Html, parse_outputs, require_html_directory, write_html, write_report
from ligerdiag.ending import watch_for_end

HELP = """Are these schedules right, that somebody else compiled? Reads what XLA left behind and
says for every output whether it is computed from what the kernels wrote. Then replays
the schedule on numbers, on the CPU, where the dump has the program. It needs neither
the program's Python nor a GPU.

\b
PATHS are any of:
  a directory of XLA_FLAGS=--xla_dump_to=DIR, with any number of modules and
    folders; those with custom calls are inspected
  a file: .hlo.pb, or HLO text (compiled.as_text()), as they are or as gzip;
    the other files of its module are taken from beside it
  an artifact directory of `ligerdiag check`

\b
What helps:
  --xla_dump_hlo_as_proto   holds the buffer assignment: which values share bytes
  the module before optimizations says what the author meant: without it little
    can be decided
What is not there is said under "not covered", and nothing is called right for it.

\b
Modules in which a kernel overwrites something are replayed, on arguments drawn by
shape and dtype, or on those of a run (--xla_dump_hlo_snapshots). Where a dump does
not say what the author meant, numbers decide nothing. Nothing that it names is
imported or run.
"""

EPILOG = f"""\b
Examples:
  XLA_FLAGS='--xla_dump_to=/tmp/dump --xla_dump_hlo_as_proto' python train.py
  ligerdiag inspect /tmp/dump
  ligerdiag inspect /tmp/dump --module '*train_step*'
  ligerdiag inspect step.txt.gz --format json
  ligerdiag inspect /tmp/dump --no-replay       the schedules alone
  ligerdiag inspect /tmp/dump --full --seed 1   also what takes long to replay

\b
Exit codes:
{render_table(MEANINGS_WITHOUT_EXPECTATION)}

{PRECEDENCE}
"""


def inspect(  # noqa: PLR0917 - typer reads the options from the signature
    paths: Paths,
    module: Module = "",
    format: ReportFormat = Format.TERMINAL,
    output: ReportOutputs = None,
    fail_on: ModuleFailOn = None,
    strict: ModuleStrict = None,
    timeout: ModuleTimeout = None,
    time_limit: TimeLimit = None,
    cache_dir: EffectsCacheDir = None,
    replay: Replay = True,
    replay_seconds: ReplaySeconds = 10.0,
    replay_memory: ReplayMemory = "4G",
    full: Full = False,
    seed: Seed = 0,
    config: Config = None,
    source_root: InspectSourceRoots = None,
    verbose: Evidence = False,
    html: Html = None,
) -> None:
    """Runs the inspection and exits with its code."""
    from ligerdiag import api
    from ligerdiag.render.terminal.terminal import ProgressDisplay
    from ligerdiag.replay.replay_worker import Bounds

    outputs = parse_outputs(output or [], format)
    if html is not None:
        require_html_directory(html)
    settings = read_settings(config, fail_on=fail_on, strict=strict, inspected=paths)
    options = api.InspectOptions(
        paths=tuple(paths),
        module=module,
        timeout=timeout,
        cache_directory=cache_dir,
        suppress=settings.config.suppress,
        effects=settings.config.effects,
        source_roots=tuple(source_root or ()),
        notes=settings.notes,
        view=html is not None,
        replay=replay,
        bounds=Bounds(seconds=replay_seconds, memory=parse_size(replay_memory), full=full),
        seed=seed,
    )
    with watch_for_end(time_limit):
        with ProgressDisplay(sys.stderr) as show:
            report = api.inspect(options, show)
        fail_on, strict = settings.fail_on, settings.strict
        code = compute_exit_code(report, fail_on=fail_on, strict=strict)
        write_report(report, outputs, verbose=verbose, code=code, fail_on=fail_on, strict=strict)
        if html is not None:
            write_html(report, html)
    raise typer.Exit(code)


DEFAULT_DIRECTORY = Path("ligerdiag-report")

REPORT_HELP = """What XLA compiled, as pages for a browser: the memory that kernels overwrite in time,
who reads it, the way to each output and what is missing on it, the schedule, the HLO.
One self-contained file a module, and an index; nothing is loaded from anywhere.

\b
PATHS are those of `ligerdiag inspect`: a directory of XLA_FLAGS=--xla_dump_to=DIR,
.hlo.pb or HLO text, an artifact directory of `ligerdiag check`. For cases there is
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


def report(  # noqa: PLR0917 - typer reads the options from the signature
    paths: Paths,
    html: Annotated[
        Path,
        typer.Option("--html", metavar="DIR", help="Where the pages go: empty, not there yet, or an older report."),
    ] = DEFAULT_DIRECTORY,
    module: Module = "",
    fail_on: ModuleFailOn = None,
    strict: ModuleStrict = None,
    timeout: ModuleTimeout = None,
    cache_dir: EffectsCacheDir = None,
    replay: Replay = True,
    replay_seconds: ReplaySeconds = 10.0,
    replay_memory: ReplayMemory = "4G",
    full: Full = False,
    seed: Seed = 0,
    config: Config = None,
    source_root: InspectSourceRoots = None,
    verbose: Evidence = False,
) -> None:
    """Inspects, writes the pages and exits with the inspection's code."""
    inspect(
        paths=paths,
        module=module,
        format=Format.TERMINAL,
        output=None,
        fail_on=fail_on,
        strict=strict,
        timeout=timeout,
        cache_dir=cache_dir,
        replay=replay,
        replay_seconds=replay_seconds,
        replay_memory=replay_memory,
        full=full,
        seed=seed,
        config=config,
        source_root=source_root,
        verbose=verbose,
        html=html,
    )
