"""`ligerdiag bisect`: finds the reason why a case is right or wrong, by varying one property of its compile."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.options import (
    AnswerForm,
    AnswerOutput,
    Config,
    ReplayBounds,
    TimeLimit,
    fill_options,
    make_command,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import AnswerFormat, require_writable, write_bisections
from ligerdiag.ending import RunEnded, watch_for_end
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.run_options import DEFAULT_TARGETS, BisectOptions, BisectTargets, Option

HELP = """What makes a case right or wrong? Compiles it many times, each time with another value
of one property (the axis), and says on what the verdict depends: a table of all
compiles, a sentence for each answer, and evidence.

\b
Axes (--over):
  mitigation  compares measures against a hidden write: hidden, trivial, barrier,
              aliased, out_of_place; the verdicts with each, and its costs. Of a case
              without siblings, those that can be applied to its lowered program
  edges       which readers must be tied to the kernel (a trivial operation forces
              them to run after it): all minimal sets of ties, or why there is none
  passes      the first pass of XLA after which an output is no longer right
  flags       XLA's flags for scheduling, fusion, GEMMs, autotuning
  targets     the GPUs to compile for
  toolchains  the versions of JAX and Triton between which the verdict changes

A set of ties is right if every output is fresh in its schedule; latent is not enough.
Replayed numbers only confirm that. For each minimal set, the answer shows that no set
with one tie less is right.

Nothing is compiled twice: compiles of earlier and interrupted runs are in the cache.
"""

MEANINGS = {
    ExitCode.AS_EXPECTED: "answered, even if the answer is that no set of ties, pass, flag or version makes the difference",
    ExitCode.INPUT: "usage or input error; an axis that does not apply to the case",
    ExitCode.NOT_ANALYSED: (
        "a compile on which an answer depends could not be analysed; the --time-limit was reached; or schedule and "
        "numbers disagree, and no finding explains it"
    ),
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the results so far are shown",
    ExitCode.TERMINATED: "ended by SIGTERM; the results so far are shown",
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


@dataclass(frozen=True, kw_only=True)
class BisectLine(ReplayBounds, BisectOptions):
    """The options of `bisect`: the case, how to search, and where the result goes."""

    targets: BisectTargets = ()
    format: AnswerForm = AnswerFormat.TERMINAL
    output: AnswerOutput = None
    time_limit: TimeLimit = None
    config: Config = None
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show the artifact directory of each row.")] = False


def run_bisect(line: BisectLine) -> None:
    """Runs the bisection, prints the result, and ends the process with the exit code."""
    from ligerdiag import api
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    if line.output is not None:
        require_writable(line.output)
    settings = read_settings(line.config, fail_on=None, strict=None)
    usual = () if line.axis is Axis.TARGETS else settings.config.targets or DEFAULT_TARGETS
    options = fill_options(
        BisectOptions,
        line,
        targets=parse_targets(line.targets) or usual,
        toolchains=parse_targets(line.toolchains),
        bounds=line.make_bounds(),
        effects=settings.config.effects,
    )
    try:
        with watch_for_end(line.time_limit):
            with ProgressDisplay(sys.stderr) as show:
                bisections = api.bisect(options, show)
            code = compute_exit_code(bisections)
            write_bisections(bisections, form=line.format, output=line.output, verbose=line.verbose, code=code)
    except RunEnded as end:  # before anything was known
        sys.stderr.write(f"ended by {end.ending.value} before anything was known\n")
        raise typer.Exit(find_ending_code(end.ending)) from end
    raise typer.Exit(code)


bisect = make_command(
    BisectLine,
    run_bisect,
    "selectors axis targets toolchain toolchains create limit format output jobs timeout time_limit cache_directory replay "
    "replay_seconds replay_memory full device config verbose",
)


def compute_exit_code(bisections: Sequence[Bisection]) -> ExitCode:
    """Returns the exit code of a run of `bisect`.

    It is 130 or 143 if a signal ended the run, otherwise 3 if something could not be analysed, otherwise 0.
    """
    ended = next((one.ended_by for one in bisections if one.interrupted), None)
    if ended is not None:
        return find_ending_code(ended)
    return ExitCode.NOT_ANALYSED if any(one.is_unsettled for one in bisections) else ExitCode.AS_EXPECTED
