"""`ligerdiag init`: writes a first case and a test, and the configuration into an existing pyproject.toml."""

import sys
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.errors import InputError

HELP = """Starts a case of your own: writes a small in-place kernel with its case, a test for
pytest, and the table [tool.ligerdiag] into an existing pyproject.toml. Without that file
it prints the table. Existing files and tables are not changed.
"""

EPILOG = """\b
Examples:
  ligerdiag init                 in the working directory
  ligerdiag init ../my_project
  ligerdiag init --dry-run       print the changes and write nothing
"""

CASE = Path("cases/starter.py")
TEST = Path("tests/test_schedule.py")
CONFIG = Path("pyproject.toml")
_ROOT = "your imports start at the folder that has it, else at that of .git"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitStep:
    """The change that `init` makes to one file, if any, and the line that `init` prints about the file."""

    path: Path
    """Path of the file, relative to the user's folder."""
    text: str
    """The new contents of the file; empty if `init` does not change it."""
    said: str
    """The line that `init` prints about the file."""


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The repository.", show_default=False)] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes and write nothing.")] = False,
) -> None:
    """Writes the files, or prints the changes with `dry_run`, and prints the names of the files."""
    from ligerdiag.cli.output import write_atomically

    if not directory.is_dir():
        raise InputError(f"expected a folder, but `{directory}` is a file or does not exist")
    steps = plan_steps(directory)
    for step in steps:
        if step.text and not dry_run:
            path = directory / step.path
            _make_folder(path.parent)
            write_atomically(path, step.text)
        sys.stdout.write(f"{'would be ' if step.text and dry_run else ''}{step.said}\n")
    if not dry_run:
        where = "" if directory.resolve() == Path.cwd() else f"cd {directory} && "
        sys.stdout.write(f"\nnext: {where}ligerdiag check\n")
        if not _ignores_reports(directory):
            sys.stdout.write("pages: ligerdiag check --html report; add `report/` to .gitignore\n")


def plan_steps(directory: Path) -> tuple[InitStep, ...]:
    """Returns the changes that `init` makes to the files in the folder, in order.

    Raises InputError for a pyproject.toml that cannot be read.
    """
    return (
        _plan_file(directory, CASE, _read("case.py.txt")),
        _plan_file(directory, TEST, _read("test_schedule.py.txt")),
        _plan_config(directory),
    )


def _plan_file(directory: Path, path: Path, text: str) -> InitStep:
    if (directory / path).exists():
        return InitStep(path=path, text="", said=f"unchanged: {path}")
    return InitStep(path=path, text=text, said=f"written: {path}")


def _plan_config(directory: Path) -> InitStep:
    table, path = _read("table.toml.txt"), directory / CONFIG
    if not path.exists():
        return InitStep(
            path=CONFIG,
            text="",
            said=f"no {CONFIG} here; {_ROOT}. It could set these options:\n{table.rstrip()}",
        )
    try:
        text = path.read_text(encoding="utf-8")
        tools = tomllib.loads(text).get("tool", {})
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read `{path}`: {error}") from None
    if "ligerdiag" in tools:
        return InitStep(path=CONFIG, text="", said=f"unchanged: {CONFIG}, which has [tool.ligerdiag]")
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    try:
        tomllib.loads(text + gap + table)
    except ValueError:
        return InitStep(path=CONFIG, text="", said=f"unchanged: {CONFIG}; add to its table `tool`:\n{table.rstrip()}")
    return InitStep(path=CONFIG, text=text + gap + table, said=f"added: [tool.ligerdiag] to {CONFIG}")


def _ignores_reports(directory: Path) -> bool:
    """Returns whether .gitignore has a line for the folder of the HTML pages."""
    try:
        lines = (directory / ".gitignore").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return any(line.strip().strip("/") == "report" for line in lines)


def _read(name: str) -> str:
    return resources.files("ligerdiag.cli").joinpath("starter", name).read_text(encoding="utf-8")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder `{folder}`: {error.strerror or error}") from None
