"""`ligerdiag diff`: says what an upgrade, another GPU or another flag changes around the kernels that overwrite their
operands.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_OF_DIFF, compute_difference_code, render_table
from ligerdiag.cli.options import (
    AnswerForm,
    AnswerOutput,
    Config,
    fill_options,
    make_command,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import AnswerFormat, require_writable, write_differences
from ligerdiag.cli.sweep import diff_sweeps, find_tables
from ligerdiag.errors import InputError
from ligerdiag.run_options import DiffOptions, Option

HELP = """What differs between two compiles of a program around the kernels that overwrite an
operand? Compares the verdicts, the readers of the overwritten value before and after the
kernel, their bytes and fusions, the other values in these bytes, and peak, temporaries
and copied bytes of the whole program.

\b
Subjects:
  ligerdiag diff A B                    two artifact directories, or two paths for
                                        `ligerdiag inspect` with one module each
  ligerdiag diff CASE --targets X,Y     a case compiled for two GPUs
  ligerdiag diff CASE --toolchains X,Y  a case compiled by two toolchains
  ligerdiag diff A.parquet B.parquet    the verdicts of two sweeps, see `ligerdiag sweep`
CASE is an id, a glob, a file or module:name as for `ligerdiag check`, and repeatable.
With both options, X of one goes with X of the other; one name counts for both sides.

Kernels are matched by name, operand and program order, readers by operation and line.
Names and ids of instructions do not count, as they differ between any two compiles.
"""

EPILOG = f"""\b
Examples:
  ligerdiag diff 'seed_flce[False-float32-True-1-4-32-16]' --targets a100,h100
  ligerdiag diff 'seed_flce[*-1-4-32-16]' --toolchains seed,default
  ligerdiag diff /dumps/before /dumps/after --module '*train_step*'
  ligerdiag diff before.hlo.pb after.hlo.pb --format json

\b
Exit codes:
{render_table(MEANINGS_OF_DIFF)}
"""


@dataclass(frozen=True, kw_only=True)
class DiffLine(DiffOptions):
    """The options of `diff`: what to compare, and where the answer goes."""

    format: AnswerForm = AnswerFormat.TERMINAL
    output: AnswerOutput = None
    config: Config = None
    verbose: Annotated[
        bool,
        Option(
            "--verbose", "-v", help="Show also bytes and fusions that affect no verdict, and the artifact directories."
        ),
    ] = False


def run_diff(line: DiffLine) -> None:
    """Runs the comparison and ends the process with the exit code."""
    if tables := find_tables(line.subjects):
        plain = line.output is None and line.format is AnswerFormat.TERMINAL
        if line.targets or line.toolchains or line.module or not plain:
            raise InputError("comparing two sweeps takes no options: leave them out")
        raise typer.Exit(diff_sweeps(*tables))
    from ligerdiag import api
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    if line.output is not None:
        require_writable(line.output)
    compiles = bool(line.targets or line.toolchains)
    inspected = [] if compiles else [Path(subject) for subject in line.subjects]
    settings = read_settings(line.config, fail_on=None, strict=None, inspected=inspected)
    options = fill_options(
        DiffOptions,
        line,
        targets=parse_targets(line.targets),
        toolchains=parse_targets(line.toolchains),
        effects=settings.config.effects,
        notes=settings.notes,
    )
    with ProgressDisplay(sys.stderr) as show:
        report = api.diff(options, show)
    code = compute_difference_code(report)
    write_differences(report, form=line.format, output=line.output, verbose=line.verbose, code=code)
    raise typer.Exit(code)


diff = make_command(
    DiffLine,
    run_diff,
    "subjects targets toolchains module format output jobs timeout cache_directory config verbose",
)
