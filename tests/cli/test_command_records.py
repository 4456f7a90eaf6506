"""Each option is declared once, in a record; the command line, `ligerdiag.check` and the pytest fixture are made from
it.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from ligerdiag.api.function import RunKeywords, make_check_options
from ligerdiag.cli.options import fill_options, make_command
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.run_options import CheckOptions, Option


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of an API function."""

    paths: Annotated[tuple[Path, ...], Option(help="Files.")]
    names: Annotated[tuple[str, ...] | None, Option("--name", help="Names.")] = None
    count: Annotated[int, Option("--count", min=1, help="How many.")] = 3
    found: bool = False


@dataclass(frozen=True, kw_only=True)
class Line(Options):
    """Options of its command."""

    loud: Annotated[bool, Option("--loud/--quiet", help="Loud.")] = True


def run(*words: str) -> list[Line]:
    seen: list[Line] = []
    app = typer.Typer()
    app.command()(make_command(Line, seen.append, "paths loud names count"))
    CliRunner().invoke(app, words)
    return seen


def test_a_command_made_from_a_record_returns_that_record() -> None:
    assert run("a", "b", "--name", "x", "--name", "y", "--count", "2", "--quiet") == [
        Line(paths=(Path("a"), Path("b")), names=("x", "y"), count=2, loud=False)
    ]
    assert run("a") == [Line(paths=(Path("a"),))]
    assert run("a", "--count", "0") == run() == []


def test_fields_that_are_not_options_are_filled_in() -> None:
    line = Line(paths=(Path("a"),), count=2)
    assert fill_options(Options, line, found=True) == Options(paths=(Path("a"),), count=2, found=True)


def test_an_option_missing_from_the_help_is_an_error() -> None:
    with pytest.raises(TypeError, match="count"):
        make_command(Line, print, "paths loud names")


def test_the_keywords_of_the_function_are_options_of_check() -> None:
    hints = get_type_hints(CheckOptions, include_extras=True) | {"full": bool}
    plain = {name: get_args(hint)[0] if hasattr(hint, "__metadata__") else hint for name, hint in hints.items()}
    assert {name: plain[name] for name in RunKeywords.__annotations__} == RunKeywords.__annotations__
    assert make_check_options({}) == CheckOptions()
    assert make_check_options({"full": True, "timeout": 2.0, "mesh": None}, jobs=1) == CheckOptions(
        bounds=Bounds(full=True), timeout=2.0, jobs=1
    )
    assert {one.name for one in fields(CheckOptions)} > RunKeywords.__annotations__.keys() - {"full"}
