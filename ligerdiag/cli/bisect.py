"""`ligerdiag bisect`: what makes a case right or wrong?"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.options import (
    DEFAULT_TARGETS,
    AnswerForm,
    AnswerOutput,
    CacheDir,
    Config,
    Full,
    Jobs,
    Replay,
    ReplayMemory,
    ReplaySeconds,
    TimeLimit,
    ToolchainName,
    parse_size,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import AnswerFormat, require_writable, write_bisections
from ligerdiag.ending import RunEnded, watch_for_end
from ligerdiag.judgement.answers import Axis, Bisection

HELP = """What makes a case right or wrong? Compile it again and again, vary one thing along an
axis, and say what the verdict hangs on: one table, a sentence for each answer, evidence.

\b
What can be varied (--over):
  mitigation  the cures beside each other: hidden, trivial, barrier, aliased,
              out_of_place; what each makes of the verdicts, and what it costs
  edges       the workaround itself: which readers must be tied to the kernel by
              a trivial operation; all minimal sets, or why there is none
  passes      the first pass of XLA after which an output is no longer right
  flags       XLA's flags for scheduling, fusion, GEMMs, autotuning
  targets     the GPU that is compiled for
  toolchains  the versions of JAX and Triton between which the verdict changed

A set of ties is right when every output is fresh by its schedule; `latent`, right by
luck, is not. The replay on numbers stands beside it and confirms. A minimal set comes
with the same set less one tie, for each tie: none of them is right.

Nothing is compiled twice: what an earlier or interrupted run compiled is in the cache.
"""

MEANINGS = {
    ExitCode.AS_EXPECTED: "answered; also that there is no such set, flag, version",
    ExitCode.INPUT: "usage or input error; an axis that does not apply to the case",
    ExitCode.NOT_ANALYSED: (
        "something that an answer needs could not be analysed; the --time-limit came first; or schedule and "
        "numbers disagree, and no finding explains it"
    ),
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; what was known is shown",
    ExitCode.TERMINATED: "ended by SIGTERM; what was known is shown",
}

EPILOG = f"""\b
Examples:
  ligerdiag bisect 'flce_modes[hidden-float32-True-1-4-32-16]' --over mitigation
  ligerdiag bisect 'seed_flce[False-float32-True-1-4-32-16]' --over edges
  ligerdiag bisect 'sharded_flce[vocabulary-trivial]' --over passes
  ligerdiag bisect mine.py --over targets --target a100,h100,b200
  ligerdiag bisect 'seed_flce[False-*]' --over toolchains --toolchains seed,default
  ligerdiag bisect mine.py --over edges --no-replay --format json

\b
Exit codes:
{render_table(MEANINGS)}
"""


def bisect(  # noqa: PLR0917 - typer reads the options from the signature
    selectors: Annotated[list[str], typer.Argument(metavar="CASE...", help="Ids, globs, files, module:name.")],
    over: Annotated[Axis, typer.Option("--over", help="What to vary.")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAMES",
            help="GPUs to compile for: a100,h100. Repeatable. [default: h100; all for --over targets]",
        ),
    ] = None,
    toolchain: ToolchainName = "default",
    toolchains: Annotated[
        list[str] | None,
        typer.Option(
            "--toolchains",
            metavar="NAMES",
            help="With --over toolchains: those to compare, in that order. [default: all that are there]",
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="With --over toolchains: make the environments that are missing.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Trials of one search, at most.")] = 200,
    format: AnswerForm = AnswerFormat.TERMINAL,
    output: AnswerOutput = None,
    jobs: Jobs = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest to compile once, and to replay it."),
    ] = 300.0,
    time_limit: TimeLimit = None,
    cache_dir: CacheDir = None,
    replay: Replay = True,
    replay_seconds: ReplaySeconds = 10.0,
    replay_memory: ReplayMemory = "4G",
    full: Full = False,
    device: Annotated[
        bool, typer.Option("--device", help="With --over mitigation: time each on this machine's GPUs.")
    ] = False,
    config: Config = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With the artifact of each row.")] = False,
) -> None:
    """Runs the bisection and exits with its code."""
    from ligerdiag import api
    from ligerdiag.render.terminal.terminal import ProgressDisplay
    from ligerdiag.replay.replay_worker import Bounds

    if output is not None:
        require_writable(output)
    settings = read_settings(config, fail_on=None, strict=None)
    usual = () if over is Axis.TARGETS else settings.config.targets or DEFAULT_TARGETS
    options = api.BisectOptions(
        selectors=tuple(selectors),
        axis=over,
        targets=parse_targets(target or []) or usual,
        toolchain=toolchain,
        toolchains=parse_targets(toolchains or []),
        create=create,
        replay=replay,
        bounds=Bounds(seconds=replay_seconds, memory=parse_size(replay_memory), full=full),
        device=device,
        limit=limit,
        jobs=jobs,
        timeout=timeout,
        cache_directory=cache_dir,
        effects=settings.config.effects,
    )
    try:
        with watch_for_end(time_limit):
            with ProgressDisplay(sys.stderr) as show:
                bisections = api.bisect(options, show)
            code = compute_exit_code(bisections)
            write_bisections(bisections, form=format, output=output, verbose=verbose, code=code)
    except RunEnded as end:  # before anything was known
        sys.stderr.write(f"ended by {end.ending.value} before anything was known\n")
        raise typer.Exit(find_ending_code(end.ending)) from end
    raise typer.Exit(code)


def compute_exit_code(bisections: Sequence[Bisection]) -> ExitCode:
    """Returns the exit code of a whole run: 130 or 143, else 3, else 0."""
    ended = next((one.ended_by for one in bisections if one.interrupted), None)
    if ended is not None:
        return find_ending_code(ended)
    return ExitCode.NOT_ANALYSED if any(one.is_unsettled for one in bisections) else ExitCode.AS_EXPECTED
