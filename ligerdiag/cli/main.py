"""`ligerdiag`: lists the commands, and turns their errors into messages and exit codes."""

import errno
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ligerdiag.cli import bisect, check, compare, diff, fix, init, inspect, record_tuning, reduce, sweep
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.inspect import REPORT_EPILOG, REPORT_HELP, report
from ligerdiag.cli.listings import (
    EXPLAIN_EPILOG,
    EXPLAIN_HELP,
    LIST_EPILOG,
    LIST_HELP,
    TARGETS_EPILOG,
    TARGETS_HELP,
    TOOLCHAINS_EPILOG,
    TOOLCHAINS_HELP,
    explain,
    list_cases,
    targets,
    toolchains,
)
from ligerdiag.errors import InputError, LigerdiagError

HELP = """Is the schedule that XLA made of your JAX program still right when a Triton kernel
overwrites one of its operands?
"""

EPILOG = """\b
First run:
  ligerdiag init                writes a first case and a test, and the
                                configuration into an existing pyproject.toml
  ligerdiag check               checks all of cases/, without a GPU
  ligerdiag check mine.py       checks a file of yours that defines CASE
  ligerdiag explain LD001       explains a finding
  ligerdiag inspect /tmp/dump   judges a dump of --xla_dump_to=/tmp/dump

Every command has its own --help.
"""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Numbers of the errors that writing to a full disk or a broken device raises."""

HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """The commands, with the address of the documentation at the end of their help."""

    def get_help(self, ctx: Any) -> str:
        from ligerdiag.package_metadata import compute_page_address

        address = compute_page_address("README.md")
        return super().get_help(ctx) + (f"\n\nDocumentation: {address}" if address else "")


app = typer.Typer(
    cls=_Commands,
    help=HELP,
    epilog=EPILOG,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
)
app.command("check", short_help="are these schedules right?", help=check.HELP, epilog=check.EPILOG)(check.check)
app.command(
    "inspect", short_help="are schedules right that were compiled elsewhere?", help=inspect.HELP, epilog=inspect.EPILOG
)(inspect.inspect)
app.command("report", short_help="compiled modules as pages for a browser", help=REPORT_HELP, epilog=REPORT_EPILOG)(
    report
)
app.command("bisect", short_help="what makes a case right or wrong?", help=bisect.HELP, epilog=bisect.EPILOG)(
    bisect.bisect
)
app.command("fix", short_help="which change makes a case right?", help=fix.HELP, epilog=fix.EPILOG)(fix.fix)
app.command(
    "reduce", short_help="what is the smallest program that shows a finding?", help=reduce.HELP, epilog=reduce.EPILOG
)(reduce.reduce)
app.command("diff", short_help="what did an upgrade change?", help=diff.HELP, epilog=diff.EPILOG)(diff.diff)
app.command(
    "compare", short_help="what became better or worse between two reports?", help=compare.HELP, epilog=compare.EPILOG
)(compare.compare)
app.command(
    "sweep", short_help="check many cases for many GPUs, toolchains and flags", help=sweep.HELP, epilog=sweep.EPILOG
)(sweep.sweep)
app.command(
    "record-tuning",
    short_help="what does the autotuner choose on this GPU?",
    help=record_tuning.HELP,
    epilog=record_tuning.EPILOG,
)(record_tuning.record_tuning)
app.command("init", short_help="start with a case of your own", help=init.HELP, epilog=init.EPILOG)(init.init)
app.command("list", short_help="which cases are there?", help=LIST_HELP, epilog=LIST_EPILOG)(list_cases)
app.command("explain", short_help="what does a rule mean?", help=EXPLAIN_HELP, epilog=EXPLAIN_EPILOG)(explain)
app.command("targets", short_help="which GPUs can ligerdiag compile for?", help=TARGETS_HELP, epilog=TARGETS_EPILOG)(
    targets
)
app.command(
    "toolchains",
    short_help="which versions of JAX and Triton are there?",
    help=TOOLCHAINS_HELP,
    epilog=TOOLCHAINS_EPILOG,
)(toolchains)


def _print_version(asked: bool) -> None:
    if asked:
        from ligerdiag.package_metadata import compute_version

        sys.stdout.write(f"ligerdiag {compute_version()}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Handles the options that precede the name of a command, such as `--version`."""


def main() -> None:
    """Runs `ligerdiag` with the arguments of this process."""
    run_application(app, "ligerdiag")


def run_application(application: typer.Typer, name: str) -> None:
    """Runs a command line. An error of class LigerdiagError ends the process with the exit code of the error.

    The error is printed as one line on stderr.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        _require_folder()
        try:
            application(prog_name=name)
        finally:
            sys.stdout.flush()
    except LigerdiagError as error:
        _print_error(str(error))
        sys.exit(error.exit_code)
    except SystemExit as leaving:
        if leaving.code == ExitCode.INTERRUPTED:
            sys.stderr.write("interrupted\n")
        if leaving.code == ExitCode.TERMINATED:
            sys.stderr.write("ended by SIGTERM\n")
        raise
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _drop_output()
        _print_error(f"cannot write to standard output: {error.strerror}")
        sys.exit(ExitCode.INPUT)


def _print_error(message: str) -> None:
    from ligerdiag.text import compute_printable, compute_without_commands

    with suppress(OSError):
        sys.stderr.write(compute_without_commands(f"error: {compute_printable(message)}") + "\n")


def _require_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise InputError("the working directory no longer exists: change to another one") from error


def _open_closed_streams() -> None:
    """Opens /dev/null for each standard stream that is closed, so that no file opened later gets the number of that
    stream.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _drop_output() -> None:
    """Discards output that could not be written, so that the interpreter does not try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(OSError):
        sys.stdout.flush()
