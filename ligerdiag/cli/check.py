"""`ligerdiag check`: are these schedules right?"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import PRECEDENCE, ExitCode, FailOn, compute_exit_code, render_table
from ligerdiag.cli.options import (
    DEFAULT_TARGETS,
    CacheDir,
    Config,
    Full,
    Jobs,
    Replay,
    ReplayMemory,
    ReplaySeconds,
    ReportFormat,
    ReportOutputs,
    SourceRoots,
    TimeLimit,
    ToolchainName,
    parse_size,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import require_recordable, write_atomically, write_record
from ligerdiag.cli.report_output import Format, Html, parse_outputs, require_html_directory, write_html, write_report
from ligerdiag.codec import pack_record
from ligerdiag.ending import watch_for_end
from ligerdiag.errors import LigerdiagError

if TYPE_CHECKING:
    pass

HELP = """Are these schedules right? Compile each case for the GPU, with no GPU needed, and say
for every output whether it is computed from what the kernels wrote. Then replay the
schedule on numbers, on the CPU, and say whether they agree.

SELECTORS choose cases by id or glob ('seed_flce[False-*]'), by the path of a file
of yours that defines CASE or CASES (mine.py, 'mine.py::ID'), or by module:name.
Without any: all of cases/, here or above, up to the project's pyproject.toml.

\b
What the words mean:
  fresh      computed as the program means it, and something forces the order
  STALE      misses what a kernel wrote: the value is wrong
  latent     right in this schedule by luck, nothing forces the order
  clobbered  sees what a kernel wrote though it needs the original
  unknown    could not be decided, never counts as right

\b
What the replay says to that:
  agrees       the numbers are what the verdicts say
  2 of 4       of as many of the outputs; the numbers of the others cannot tell
  lossy 0.25   as meant, but for the precision: the relative error
  DISAGREES    they cannot both be true: the report lists the causes that are left
  undecided    the numbers cannot tell
  (2 of 32)    of as many iterations of its dearest loop: all of them are estimated
               above the bounds, see --full. Such numbers show what is wrong, and
               never that nothing is wrong in a later iteration
  too large    estimated above the bounds, see --full
  not covered  holds something that replay does not compute
"""

EPILOG = f"""\b
Examples:
  ligerdiag check                               all cases; the first run compiles,
                                                later ones read the cache
  ligerdiag check 'seed_flce[False-*]'          some of them
  ligerdiag check mine.py --target a100,h100    your own file, two GPUs side by side
  ligerdiag check --format json --output report.json
  ligerdiag check --format github --output sarif=out.sarif --output junit=out.xml
  ligerdiag check --html report                 as pages: report/index.html
  ligerdiag check --no-replay                   the schedules alone
  ligerdiag check --orders 20                   is what is fresh so in every order that
                                                XLA may choose? Run in 20 others, too
  ligerdiag check --device --time-limit 1500    on a machine that is there for half
                                                an hour: what is known by then
  ligerdiag check --full --timeout 3600         also what takes long to replay
  ligerdiag check 'seed_*' --toolchain seed     as jax 0.4.34 compiles them
  ligerdiag check --scheduler tcp://head:8786   on the workers of a Dask cluster
  ligerdiag check --record schedules.json       before an upgrade
  ligerdiag check --baseline schedules.json     after it: what moved?

\b
Exit codes:
{render_table()}

{PRECEDENCE}
"""


def check(  # noqa: PLR0917 - typer reads the options from the signature
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Ids, globs, files, module:name.", show_default=False)
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAMES", help="GPUs to compile for: a100,h100. Repeatable. [default: h100]"),
    ] = None,
    format: ReportFormat = Format.TERMINAL,
    output: ReportOutputs = None,
    jobs: Jobs = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest to compile a case, and to replay it."),
    ] = 300.0,
    time_limit: TimeLimit = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Least severity that fails a case without expectation. [default: warning]"),
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--no-strict", help="Exit with 4 when a case is inconclusive, with 1 for an unused suppression."
        ),
    ] = None,
    cache_dir: CacheDir = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Compile and replay again what the cache has.")] = False,
    replay: Replay = True,
    replay_seconds: ReplaySeconds = 10.0,
    replay_memory: ReplayMemory = "4G",
    full: Full = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Count the fresh and stale rows of each output; -v shows them.")
    ] = False,
    orders: Annotated[
        int,
        typer.Option(
            "--orders", min=0, metavar="N", help="Replay each schedule in N other legal orders, too: is fresh forced?"
        ),
    ] = 0,
    device: Annotated[
        bool,
        typer.Option("--device", help="Compile for this machine's GPUs, too, run there and compare."),
    ] = False,
    config: Config = None,
    source_root: SourceRoots = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Write the schedules there, as a baseline; see --baseline."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Report what drifted since FILE was recorded (LD015)."),
    ] = None,
    toolchain: ToolchainName = "default",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="ADDRESS", help="Check on the workers of a Dask scheduler; see docs/sweep.md."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Numbers of each output; findings of expected cases by themselves.")
    ] = False,
    html: Html = None,
    data: Annotated[Path | None, typer.Option("--data", hidden=True)] = None,
) -> None:
    """Runs the check and exits with its code.

    data: a file for the whole report, from which a sweep makes pages.
    """
    from ligerdiag import api
    from ligerdiag.render.terminal.terminal import ProgressDisplay
    from ligerdiag.replay.replay_worker import Bounds

    outputs = parse_outputs(output or [], format)
    if html is not None:
        require_html_directory(html)
    if record is not None:
        require_recordable(record)
    settings = read_settings(config, fail_on=fail_on, strict=strict)
    usual = settings.config.targets or DEFAULT_TARGETS
    options = api.CheckOptions(
        selectors=tuple(selectors or ()),
        targets=parse_targets(target or []) or usual,
        jobs=jobs,
        timeout=timeout,
        cache_directory=cache_dir,
        refresh=refresh,
        replay=replay,
        bounds=Bounds(seconds=replay_seconds, memory=parse_size(replay_memory), full=full),
        rows=rows,
        orders=orders,
        device=device,
        suppress=settings.config.suppress,
        effects=settings.config.effects,
        usual_targets=usual,
        source_roots=None if source_root is None else tuple(source_root),
        toolchain=toolchain,
        baseline=baseline or (settings.config.baseline if record is None else None),
        record=record is not None,
        view=html is not None or data is not None,
    )
    with watch_for_end(time_limit):
        try:
            with ProgressDisplay(sys.stderr) as show:
                if scheduler is None:
                    report = api.check(options, show)
                else:
                    from ligerdiag.sweep.remote import check_on_cluster

                    report = check_on_cluster(options, scheduler, show)
        except LigerdiagError as error:
            readers = {path: form for path, form in outputs.files.items() if form is not Format.TERMINAL}
            if outputs.shown is not Format.TERMINAL or readers:  # a program that reads a report gets one
                refusal = api.describe_refusal(options, error)
                asked, code = replace(outputs, files=readers), ExitCode(error.exit_code)
                write_report(refusal, asked, verbose=verbose, code=code, fail_on=FailOn.NEVER, strict=False)
            raise
        fail_on, strict = settings.fail_on, settings.strict
        code = compute_exit_code(report, fail_on=fail_on, strict=strict)
        write_report(report, outputs, verbose=verbose, code=code, fail_on=fail_on, strict=strict)
        if html is not None:
            write_html(report, html)
        if data is not None:
            write_atomically(data, pack_record(report))
        if record is not None:
            write_record(report, options, record)
    raise typer.Exit(code)
