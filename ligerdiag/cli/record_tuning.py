"""`ligerdiag record-tuning`: writes the choices that XLA's autotuner makes on this machine's GPUs into a file."""

import sys
from dataclasses import dataclass

import typer

from ligerdiag.cli.exit_codes import MEANINGS_OF_TUNING, ExitCode, choose_exit_code, render_table
from ligerdiag.cli.options import fill_options, make_command
from ligerdiag.cli.output import require_writable, write_atomically
from ligerdiag.cli.verbosity import Verbosity, show_progress
from ligerdiag.run_options import TuningOptions
from ligerdiag.text import compute_printable, count_of, join_words

HELP = """What does the autotuner choose on this GPU? Compiles the cases for the GPUs of this machine,
with XLA's autotuning, and writes what XLA chose: a Triton kernel or a library call for each
product, and its tiles. `ligerdiag check --autotune-results FILE` then compiles with these choices
on machines without a GPU.

SELECTORS choose cases as for `ligerdiag check`. The cases are compiled, not run.
"""

EPILOG = f"""\b
Examples:
  ligerdiag record-tuning mine.py --output h100.pbtxt     where the GPU is
  ligerdiag check mine.py --autotune-results h100.pbtxt   anywhere

\b
Exit codes:
{render_table(MEANINGS_OF_TUNING)}
"""


@dataclass(frozen=True, kw_only=True)
class TuningLine(TuningOptions):
    """The options of `record-tuning`."""


def run_record_tuning(line: TuningLine) -> None:
    """Records the choices of XLA's autotuner, says what was written, and ends the process with the exit code."""
    from ligerdiag import api

    require_writable(line.output)
    options = fill_options(TuningOptions, line)
    with show_progress(Verbosity.USUAL) as show:
        found = api.record_tuning(options, show)
    for case_id, error in found.errors.items():
        sys.stderr.write(f"error: {compute_printable(f'case `{case_id}`: {error}')}\n")
    if found.content:
        write_atomically(options.output, found.content)
        choices = count_of(sum(found.devices.values()), "choice")
        cases = count_of(len(found.artifacts), "case")
        sys.stdout.write(f"written: {options.output}, {choices} of {found.device} in {cases}\n")
        sys.stdout.write(f"use it: {_describe_use(found.targets, options)}\n")
    else:
        sys.stderr.write("nothing written: no choice was recorded\n")
    if found.errors:
        raise typer.Exit(choose_exit_code(ExitCode(error.exit_code) for error in found.errors.values()))


def _describe_use(targets: tuple[str, ...], options: TuningOptions) -> str:
    command = f"ligerdiag check --autotune-results {options.output.name} --target"
    if targets:
        return f"{command} {targets[0]}" + (f", or {join_words(targets[1:], 'or')}" if targets[1:] else "")
    return f"{command} mine.pbtxt, with the description of this GPU that `ligerdiag targets auto` prints"


record_tuning = make_command(TuningLine, run_record_tuning, "selectors output timeout cache_directory")
