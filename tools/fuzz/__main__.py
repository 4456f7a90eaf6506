"""Judges random programs, to find out where ligerdiag itself is wrong: `python -m tools.fuzz`."""

import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.main import HELP_NAMES, run_application
from ligerdiag.cli.options import TimeLimit, fill_options, make_command
from ligerdiag.ending import watch_for_end
from ligerdiag.errors import InputError
from ligerdiag.report.terminal.full_report import ProgressDisplay
from ligerdiag.run_options import Option
from tools.fuzz.campaign import run_campaign
from tools.fuzz.campaign_report import render_fuzz_report
from tools.fuzz.gpu_campaign import run_device_campaign
from tools.fuzz.judged_programs import FuzzOptions, FuzzReport
from tools.fuzz.programs import REFS

HELP = """Is ligerdiag right about programs that nobody has seen? Draws random programs
around kernels that overwrite an operand, then compiles, judges and replays each, also
with opaque functions in place of the kernels. Three things are contradictions: a verdict
on an output that its numbers refute while no finding explains why, a fresh output that
changes in another order that XLA may choose, and opaque functions that refute a verdict
or the numbers.

A program is drawn from its seed: the same seed gives the same program. Results are
in DIR/programs.jsonl, a line a program; the same command continues a campaign that
was ended. Each contradiction is made smaller as long as it stays one, and written to
DIR/contradictions as a case file that needs no other file: run `ligerdiag check` on
it, fix the bug, keep the file.

With --device each program also runs on the GPUs of this machine, and the schedule
that XLA made there is judged: DIR/device.jsonl. Programs that need more GPUs than
the machine has are left out.

The programs call their kernels with jax-triton. Seeds from 10000000 on give programs
in the style of jax-triton 0.4, with Refs: one third of them is differentiated, and one
third has a loop or a jax.checkpoint around a kernel. All run with every version.
"""

MEANINGS = {
    ExitCode.AS_EXPECTED: "no contradiction in any program of DIR",
    ExitCode.INPUT: "usage or input error",
    ExitCode.NOT_ANALYSED: "contradictions: bugs in ligerdiag; or the --time-limit came first",
    ExitCode.NOTHING_CHECKED: "no program judged",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the results so far are kept",
    ExitCode.TERMINATED: "ended by SIGTERM; the results so far are kept",
}

EPILOG = f"""\b
Examples:
  python -m tools.fuzz                             a hundred programs
  python -m tools.fuzz --seed 5000 --count 1000    a thousand others
  nice python -m tools.fuzz --count 3000 --out campaign -j 2
                                       a campaign of days; the same command
                                       continues it
  python -m tools.fuzz --minutes 30 --count 10000  as many as half an hour allows
  python -m tools.fuzz --target a100 --out a100    compiled for another GPU
  python -m tools.fuzz --scheduler tcp://head:8786 --count 10000
                                       on a Dask cluster; see docs/sweep.md
  python -m tools.fuzz --device --minutes 8        compiled for the GPUs of this
                                       machine, and run on them

\b
Exit codes:
{render_table(MEANINGS)}
"""


@dataclass(frozen=True, kw_only=True)
class FuzzLine(FuzzOptions):
    """The options of the command line: those of a campaign, and those that choose the machines."""

    directory: Annotated[Path, Option("--out", metavar="DIR", help="Folder of the campaign.")] = Path("fuzz")
    seed: Annotated[
        int | None,
        Option(
            "--seed",
            min=0,
            metavar="N",
            help="The first seed. [default: 0; with jax-triton 0.4 and later 10000000]",
            show_default=False,
        ),
    ] = None
    time_limit: TimeLimit = None
    device: Annotated[
        bool,
        Option(
            "--device", help="Compile and run each program on the GPUs of this machine, and judge that compilation."
        ),
    ] = False


def run_fuzz(line: FuzzLine) -> None:
    """Runs the campaign and exits with its code."""
    try:
        line.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"expected a folder for --out but `{line.directory}`: {error.strerror}") from error
    options = fill_options(
        FuzzOptions,
        line,
        directory=line.directory.resolve(),
        first=find_first_seed() if line.seed is None else line.seed,
    )
    if line.device and line.scheduler is not None:
        raise InputError("expected `--device` or `--scheduler`: the GPUs of this machine are not the workers'")
    with watch_for_end(line.time_limit):
        with ProgressDisplay(sys.stderr) as show:
            report = (run_device_campaign if line.device else run_campaign)(options, show)
        sys.stdout.write(render_fuzz_report(report))
    raise typer.Exit(compute_exit_code(report))


def find_first_seed() -> int:
    """Returns the first seed of programs in the idiom of the installed jax-triton."""
    try:
        version = metadata.version("jax-triton")
    except metadata.PackageNotFoundError:
        return 0
    return REFS if [int(part) for part in version.split(".")[:2]] >= [0, 4] else 0


def compute_exit_code(report: FuzzReport) -> ExitCode:
    """Returns 130 or 143 for a run that was ended, else the code for all programs of the directory."""
    if report.ended_by is not None:
        return find_ending_code(report.ended_by)
    if not report.rows:
        return ExitCode.NOTHING_CHECKED
    return ExitCode.NOT_ANALYSED if report.list_contradictions() else ExitCode.AS_EXPECTED


app = typer.Typer(
    rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, context_settings=HELP_NAMES
)
fuzz = make_command(
    FuzzLine,
    run_fuzz,
    "directory seed count minutes target jobs timeout time_limit device scheduler orders shrink",
)
app.command(help=HELP, epilog=EPILOG)(fuzz)

if __name__ == "__main__":
    run_application(app, "python -m tools.fuzz")
