"""`ligerdiag init` writes files that pass a check, and overwrites nothing."""

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag.cli import init as command
from tools.running import Outcome, run_process
from tools.warm_commands import run_warm_command

PROJECT = '[project]\nname = "mine"\nversion = "0"'
WRITTEN = ["cases/starter.py", "pyproject.toml", "tests/test_schedule.py"]

type Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a Python module in the folder."""
    cache = tmp_path_factory.mktemp("cache")

    def run_it(*words: str) -> Outcome:
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)}
        if words[0] == "ligerdiag":
            return run_warm_command(words[1:], cwd=tmp_path, environment=environment)
        return run_process([sys.executable, "-m", *words], cwd=tmp_path, environment=environment)

    return run_it


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_written_case_checks_at_once_and_the_written_test_passes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    outcome = run("ligerdiag", "init")
    assert (outcome.code, list_files(tmp_path)) == (0, WRITTEN)
    assert outcome.out.splitlines() == [
        "written: cases/starter.py",
        "written: tests/test_schedule.py",
        "added: [tool.ligerdiag] to pyproject.toml",
        "",
        "next: ligerdiag check",
        "pages: ligerdiag check --html report; add `report/` to .gitignore",
    ]
    checked = run("ligerdiag", "check", "--strict")
    assert checked.code == 0, checked
    assert "starter  as expected  agrees  count fresh · loss fresh" in checked.out
    tested = run("pytest", "-p", "no:cacheprovider", "--strict-markers")
    assert tested.code == 0, tested
    assert "1 passed" in tested.out


def test_init_says_where_imports_start_and_adds_no_hint_that_is_followed(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/report/\n")
    outcome = run("ligerdiag", "init")
    assert "no pyproject.toml here; your imports start at the folder that has it, else at that of .git" in outcome.out
    assert "that of the command line is false" in outcome.out
    before, empty, last = outcome.out.splitlines()[-3:]
    assert (bool(before), empty, last) == (True, "", "next: ligerdiag check")


def test_without_its_declaration_the_starter_is_stale_as_its_text_says(run: Run, tmp_path: Path) -> None:
    assert run("ligerdiag", "init").code == 0
    starter = tmp_path / "cases" / "starter.py"
    text = starter.read_text()
    for old, new in (
        ("from ligerdiag.in_place import call_in_place", "from jax_triton import triton_call"),
        ("x_ptr, count_ptr, spare_ptr, COLUMNS", "x_ptr, count_ptr, COLUMNS"),
        ("return call_in_place(", "return triton_call("),
        ("        written=0,\n", ""),
        ("outputs=", "out_shape="),
        ("        COLUMNS=columns,\n    )", "        COLUMNS=columns,\n    )[0], x"),
    ):
        assert old in text
        text = text.replace(old, new)
    starter.write_text(text)
    checked = run("ligerdiag", "check", "--no-replay")
    assert checked.code == 1, checked
    assert "loss STALE" in checked.out


def test_init_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    texts = {"cases/starter.py": "# mine\n", "tests/test_schedule.py": "# mine\n"}
    texts["pyproject.toml"] = PROJECT + "\n[tool.ligerdiag.effects]\n"
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    outcome = run("ligerdiag", "init")
    assert outcome.code == 0
    assert outcome.out.count("unchanged: ") == 3
    assert {name: (tmp_path / name).read_text() for name in texts} == texts


def test_a_dry_run_names_its_files_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    outcome = run("ligerdiag", "init", "--dry-run")
    assert (outcome.code, list_files(tmp_path)) == (0, [])
    assert "would be written: cases/starter.py" in outcome.out
    assert "next:" not in outcome.out


@pytest.mark.parametrize("text", ["", PROJECT, f"{PROJECT}\n", f"{PROJECT}\n[tool.other]\nkey = 1\n"])
def test_the_table_is_added_and_nothing_else_is_changed(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    (step,) = (step for step in command.plan_steps(tmp_path) if step.path == command.CONFIG)
    assert step.text.startswith(text)
    table = tomllib.loads(step.text)
    assert table.pop("tool")["ligerdiag"] == {"targets": ["h100"], "fail_on": "warning", "strict": True}
    assert table.get("project") == tomllib.loads(text).get("project")


def test_a_table_that_cannot_be_added_is_printed(tmp_path: Path) -> None:
    (step,) = (step for step in command.plan_steps(tmp_path) if step.path == command.CONFIG)
    assert step.text == ""
    assert step.said.startswith("no pyproject.toml here")
    assert "[tool.ligerdiag]" in step.said
    (tmp_path / "pyproject.toml").write_text("tool = {other = {key = 1}}\n")
    (step,) = (step for step in command.plan_steps(tmp_path) if step.path == command.CONFIG)
    assert step.text == ""
    assert "add to its table `tool`" in step.said


def test_a_missing_folder_and_a_file_that_is_not_toml_are_input_errors(run: Run, tmp_path: Path) -> None:
    assert run("ligerdiag", "init", "nowhere").code == 2
    (tmp_path / "pyproject.toml").write_text("[tool")
    outcome = run("ligerdiag", "init")
    assert (outcome.code, list_files(tmp_path)) == (2, ["pyproject.toml"])
    assert outcome.err.startswith("error: cannot read `")
