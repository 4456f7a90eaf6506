"""A plain `pip install` of the wheel gets the newest jax-triton and Triton, not the versions pinned here.

Anyone who follows the pages in such an environment, without this checkout, gets the same answers.
"""

import re
from pathlib import Path

import pytest

from tools.documents import ROOT, iterate_runs, matches, run_command

HOW_TO = ROOT / "docs" / "how-to-check-your-train-step.md"
_ROW = re.compile(
    r"^(?P<case>[\w\[\]-]+)\s+(as expected|FINDINGS|UNEXPECTED|fresh|nothing to check)\s.*$", re.MULTILINE
)
_RULE = re.compile(r"^(?:error|warning|note)\[LD\d+\]", re.MULTILINE)


@pytest.fixture(scope="module")
def python(plain_python: Path) -> Path:
    return plain_python


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_the_plain_environment_has_the_other_generation_of_jax_triton(
    python: Path, cache: Path, tmp_path: Path
) -> None:
    said = run_command(
        "python -c 'import jax_triton, ligerdiag; print(jax_triton.__version__)'", tmp_path, cache, python
    )
    assert [int(number) for number in said.out.split(".")[:2]] >= [0, 4], said


def test_following_the_page_alone_fixes_the_step_of_a_user_s_package(python: Path, cache: Path, tmp_path: Path) -> None:
    runs = [
        (block, command, outcome) for block, command, outcome in iterate_runs(HOW_TO, tmp_path, cache, python=python)
    ]
    assert len(runs) == 3
    for block, command, outcome in runs:
        said = f"{block.place}: {command.words}\n{outcome.out}{outcome.err}"
        assert outcome.code == int(block.find_word("exit") or 0), said
        assert command.expected is not None
        assert matches(command.expected, outcome.out), said


@pytest.mark.parametrize(("page", "commands"), [("README.md", 2), ("docs/tutorial.md", 3)])
def test_a_page_s_own_files_get_the_same_verdicts_and_rules(
    page: str, commands: int, python: Path, cache: Path, tmp_path: Path
) -> None:
    runs = list(iterate_runs(ROOT / page, tmp_path, cache, python=python, of_its_files=True))
    assert len(runs) == commands
    for block, command, outcome in runs:
        said = f"{block.place}: {command.words}\n{outcome.out}{outcome.err}"
        assert outcome.code == int(block.find_word("exit") or 0), said
        if command.expected is not None:
            assert list_answers(outcome.out) == list_answers(command.expected), said


def test_on_the_plugin_s_page_the_hidden_write_fails_and_the_declared_one_passes(
    python: Path, cache: Path, tmp_path: Path
) -> None:
    runs = iterate_runs(ROOT / "docs" / "pytest-plugin.md", tmp_path, cache, python=python, of_its_files=True)
    block, command, outcome = next(runs)
    said = f"{block.place}: {command.words}\n{outcome.out}{outcome.err}"
    assert outcome.code == int(block.find_word("exit")), said
    assert "FAILED test_model.py::test_the_loss[hidden] - WrongScheduleError" in outcome.out, said
    assert "1 failed, 1 passed in" in outcome.out, said


def test_the_files_of_init_are_as_expected_and_replayed(python: Path, cache: Path, tmp_path: Path) -> None:
    assert run_command("ligerdiag init", tmp_path, cache, python).code == 0
    checked = run_command("ligerdiag check --strict", tmp_path, cache, python)
    assert checked.code == 0, checked
    assert "starter  as expected  agrees  count fresh · loss fresh" in checked.out
    tested = run_command("python -m pytest -q -p no:cacheprovider", tmp_path, cache, python)
    assert tested.code == 0, tested


def list_answers(text: str) -> list[str]:
    """Returns the rows of the table and the rules of the findings."""
    return [" ".join(row[0].split()) for row in _ROW.finditer(text)] + _RULE.findall(text)
