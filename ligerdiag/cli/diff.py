"""`ligerdiag diff`: what did an upgrade, another GPU, another flag change around the in-place kernels?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_OF_DIFF, compute_difference_code, render_table
from ligerdiag.cli.options import AnswerForm, AnswerOutput, CacheDir, Config, Jobs, parse_targets, read_settings
from ligerdiag.cli.output import AnswerFormat, require_writable, write_differences
from ligerdiag.cli.sweep import diff_sweeps, is_sweep_diff
from ligerdiag.errors import InputError

HELP = """What differs between two compiles of a program, around the kernels that overwrite an
operand: the verdict of every output, who reads the overwritten value before and who
after the kernel, from which bytes, in which fusion, and what shares these bytes.

\b
What is compared:
  ligerdiag diff A B                    two artifact directories, or two of whatever
                                        `ligerdiag inspect` reads, with one module each
  ligerdiag diff CASE --targets X,Y     a case compiled for two GPUs
  ligerdiag diff CASE --toolchains X,Y  a case compiled by two toolchains
  ligerdiag diff A.parquet B.parquet    the verdicts of two sweeps, see `ligerdiag sweep`
CASE is an id, a glob, a file or module:name, as of `ligerdiag check`, any number of them.
Both options together: X of the one with X of the other, or one name for both sides.

Kernels are matched by name, operand and program order; readers by operation and line.
Names and ids of instructions say nothing: no two compiles share them.
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


def diff(  # noqa: PLR0917 - typer reads the options from the signature
    subjects: Annotated[
        list[str] | None, typer.Argument(metavar="A B | CASE...", help="Two paths, or cases.", show_default=False)
    ] = None,
    targets: Annotated[
        list[str] | None, typer.Option("--targets", metavar="X,Y", help="GPUs to compile for. [default: h100]")
    ] = None,
    toolchains: Annotated[
        list[str] | None,
        typer.Option("--toolchains", metavar="X,Y", help="Versions to compile with, see `ligerdiag toolchains`."),
    ] = None,
    module: Annotated[
        str, typer.Option("--module", metavar="GLOB", help="Of a dump: the module whose name matches.")
    ] = "",
    format: AnswerForm = AnswerFormat.TERMINAL,
    output: AnswerOutput = None,
    jobs: Jobs = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest for one compile. [default: 300]"),
    ] = None,
    cache_dir: CacheDir = None,
    config: Config = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also bytes and fusions that decide nothing, and the artifacts.")
    ] = False,
) -> None:
    """Runs the comparison and exits with its code."""
    if is_sweep_diff(subjects or []):
        if targets or toolchains or module or output is not None or format is not AnswerFormat.TERMINAL:
            raise InputError("two sweeps are compared as they are: leave the options out")
        raise typer.Exit(diff_sweeps(*map(Path, subjects or [])))
    from ligerdiag import api
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    if output is not None:
        require_writable(output)
    compiles = bool(targets or toolchains)
    inspected = [] if compiles else [Path(subject) for subject in subjects or ()]
    settings = read_settings(config, fail_on=None, strict=None, inspected=inspected)
    options = api.DiffOptions(
        subjects=tuple(subjects or ()),
        targets=parse_targets(targets or []),
        toolchains=parse_targets(toolchains or []),
        module=module,
        jobs=jobs,
        timeout=timeout,
        cache_directory=cache_dir,
        effects=settings.config.effects,
        notes=settings.notes,
    )
    with ProgressDisplay(sys.stderr) as show:
        report = api.diff(options, show)
    code = compute_difference_code(report)
    write_differences(report, form=format, output=output, verbose=verbose, code=code)
    raise typer.Exit(code)
