"""README.md and the page of the cases are true: a printed file runs, and an excerpt occurs in the output."""

import re
from pathlib import Path

import pytest

from ligerdiag.model.report import CheckReport
from ligerdiag.report.terminal.full_report import render_terminal
from tests.api.conftest import ROOT, RunCli

README = ROOT / "README.md"
CASES = ROOT / "docs" / "repository-cases.md"


def find_block(page: Path, language: str, start: str) -> list[str]:
    """Returns the lines of the code block in this language whose first line starts with this text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    (block,) = (block for block in blocks if block.startswith(start))
    return block.splitlines()


def test_the_printed_function_runs(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "mine.py").write_text("\n".join(find_block(README, "python", "# mine.py")) + "\n")
    outcome = run_cli("check", "mine.py", cwd=tmp_path)
    assert find_block(README, "text", "mine ") == [
        line for line in outcome.out.splitlines() if line.startswith("mine ")
    ]
    assert "error[LD002]: `gradient`" in outcome.out
    assert outcome.code == 1


@pytest.mark.nightly
def test_the_excerpt_occurs_in_the_table_in_order(table: CheckReport) -> None:
    command, *excerpt = find_block(CASES, "text", "$ ligerdiag check")
    output = re.sub(r"\s+", " ", render_terminal(table))
    lines = [
        line for line in excerpt if not re.search(r"\(\d+ of \d+\)|^replayed", line)
    ]  # `table` has no large replays
    text = re.sub(r"\s+", " ", " ".join(lines)).strip()
    parts = [part.strip() for part in text.split("…")]
    assert command == "$ ligerdiag check"
    at = 0
    for part in parts:
        found = output.find(part, at)
        assert found >= 0, part
        at = found + len(part)
