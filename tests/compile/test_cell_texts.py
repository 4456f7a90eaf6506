"""The source of code without a file (a notebook's cell, `python -c`) goes with a live function, if it surely is its own."""

import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.api.function import LiveFunction, write_live_function
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases import cell_texts
from ligerdiag.model.findings import SourceLine
from ligerdiag.source_text import TEXTS_SUFFIX, load_source_text

type Define = Callable[[str, str], dict[str, Any]]
TEXT = "y = 1\ndef step(x):\n    return x + y  # the step\n"


@pytest.fixture
def define() -> Iterator[Define]:
    """Runs a text under a file name that is no file, as a notebook does."""
    names: list[str] = []

    def run(name: str, text: str, *, known: bool = True) -> dict[str, Any]:
        if known:
            names.append(name)
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), space)
        return space

    yield run
    for name in names:
        linecache.cache.pop(name, None)


def read(function: Any, folder: Path, file: str, line: int = 3) -> str:
    """Returns the text of a line, as a report of the function shows it."""
    source = write_live_function(LiveFunction(function=function, specs=(1,)), Cache(folder / "cache"), folder)
    linecache.cache.pop(file, None)  # a report may be rendered elsewhere
    return load_source_text(SourceLine(file=file, line=line), (str(Path(source.pickled).with_suffix(TEXTS_SUFFIX)),))


@pytest.mark.parametrize("name", ["<ipython-input-3-0a1b>", "/tmp/ipykernel_12/3456.py", "<doctest a[0]>", "<stdin>"])
def test_a_cell_s_line_is_known_from_its_name(define: Define, tmp_path: Path, name: str) -> None:
    assert read(define(name, TEXT)["step"], tmp_path, name) == "return x + y  # the step"


def test_a_function_that_the_step_calls_is_of_another_cell(define: Define, tmp_path: Path) -> None:
    inner = define("<cell 1>", TEXT)["step"]
    space = define("<cell 2>", "def outer(x):\n    return step(x)\n")
    space["step"] = inner
    assert read(space["outer"], tmp_path, "<cell 1>") == "return x + y  # the step"


def test_the_text_of_python_c_is_known(define: Define, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", TEXT])
    assert read(define("<string>", TEXT, known=False)["step"], tmp_path, "<string>") == "return x + y  # the step"


def test_code_of_exec_does_not_get_the_text_of_other_code(
    define: Define, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", TEXT])
    other = define("<string>", "\ndef step(x):\n    return x - 1\n", known=False)["step"]
    assert read(other, tmp_path, "<string>") == ""


def test_two_texts_with_one_name_are_no_text(define: Define, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", TEXT])
    space = define("<string>", "def outer(x):\n    return step(x)\n", known=False)
    space["step"] = define("<string>", TEXT, known=False)["step"]
    assert read(space["outer"], tmp_path, "<string>") == ""


def test_a_text_that_is_too_long_is_left_out(define: Define, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_texts, "MAX_BYTES", len(TEXT) - 1)
    assert read(define("<cell 1>", TEXT)["step"], tmp_path, "<cell 1>") == ""


def test_a_function_of_a_file_has_no_kept_text(tmp_path: Path) -> None:
    source = write_live_function(LiveFunction(function=lambda x: x, specs=(1,)), Cache(tmp_path / "cache"), tmp_path)
    assert not Path(source.pickled).with_suffix(TEXTS_SUFFIX).exists()


def test_without_such_a_folder_no_text_is_shown(define: Define) -> None:
    define("<cell 1>", TEXT)
    assert load_source_text(SourceLine(file="<cell 1>", line=3), ("/tmp",)) == ""
