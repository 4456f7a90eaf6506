"""The line that defines a case, found without importing its file."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import SourceLine
from ligerdiag.report.case_places import find_case_line, find_case_place
from ligerdiag.source_text import load_source_text
from tests.report.samples import make_case


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("CASE = Case(name='a')\n", 1),
        ("\n\nCASES = (\n    ligerdiag.Case(\n        name='a',\n    ),\n)\n", 4),
        ("def make():\n    return [Case(name='a')]\n\nCASE = Case(name='a')\n", 2),
        ("CASE = Case(name='a')\n\ndef make():\n    return [Case(name='a')]\n", 1),
        ("CASES = [Case(name='b')]\n", 1),
        ("\nCASES = tuple(Case(name=n) for n in 'ab')\n", 2),
        ("Case(\n'a')\n", 0),
        ("not python at all (\n", 0),
        ("\x00", 0),
        ("", 0),
    ],
)
def test_the_line_is_that_of_the_first_call_or_of_the_table(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert find_case_line(str(file), "a[1-2]") == line


def test_a_file_is_not_imported(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('imported')\nCASE = Case(name='a')\n")
    assert find_case_line(str(file), "a") == 2


def test_a_relative_file_is_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"loss = {name}\n")
        monkeypatch.chdir(tmp_path / name)
        lines.append(load_source_text(SourceLine(file="train.py", line=1), [str(tmp_path)]))
    assert lines == ["loss = one", "loss = two"]


@pytest.mark.parametrize("file", ["gone.py", "<string>", "a\0.py", "notes.txt"])
def test_a_missing_file_has_no_line(file: str) -> None:
    assert find_case_line(file, "a") == 0


def test_a_case_without_a_file_has_no_place() -> None:
    assert find_case_place(make_case()) is None
