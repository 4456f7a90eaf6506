"""The page of a rule, and whether the generated pages are up to date."""

import dataclasses
from pathlib import Path

import pytest

from ligerdiag.model.findings import Severity
from ligerdiag.report.rule_page import (
    compute_page_name,
    main,
    render_index,
    render_pages,
    render_rule_markdown,
    render_rule_text,
    run_page_command,
)
from ligerdiag.rules.rule import Example, Reproduction, Rule

DOCS = Path(__file__).parents[2] / "docs"

RULE = Rule(
    id="LD001",
    name="stale-read",
    severity=Severity.ERROR,
    summary="a reader reads\n    before the kernel writes",
    what_it_does="Looks.",
    why="Wrong values.",
    what_to_do="Declare it.",
    limits="",
    references=("one report",),
    bad=(Example(about="reads too early", code="CASE = 1\n"),),
    good=(Example(about="reads late", code="CASE = 2\n", target="a100"),),
    check=lambda context: (),
)

HEADINGS = [
    "What it does",
    "Why it is a hazard",
    "What to do",
    "Limits",
    "How to allow it",
    "References",
    "Example that is reported",
    "Example that is not",
]


def test_a_page_has_the_fixed_headings_in_order() -> None:
    page = render_rule_markdown(RULE)
    assert page.startswith("# LD001 stale-read\n\n**error**: a reader reads before the kernel writes\n")
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == HEADINGS
    assert "Reads too early" not in page
    assert "reads too early. Target: h100.\n\n```python\nCASE = 1\n```" in page


REBUILT = dataclasses.replace(
    RULE,
    reproduced=(
        Reproduction(report="a/b#1", case="mine[a-b]", reproduced="a | b", missing="the\n rest"),
        Reproduction(report="a/b#2", case="", reproduced="nothing", missing="all"),
    ),
)


def test_the_reports_of_a_rule_are_a_table_before_the_references() -> None:
    page = render_rule_markdown(REBUILT)
    assert (
        "## Reports, and how far they were reproduced\n\n"
        "| report | case | reproduced | not reproduced |\n"
        "| --- | --- | --- | --- |\n"
        "| a/b#1 | `mine[a-b]` | a \\| b | the rest |\n"
        "| a/b#2 | none | nothing | all |\n\n"
        "## References\n"
    ) in page


def test_a_terminal_gets_the_reports_as_a_list() -> None:
    text = render_rule_text(REBUILT)
    assert "    - a/b#1, case mine[a-b]. Reproduced: a | b. Not: the rest.\n" in text
    assert "    - a/b#2, no case. Reproduced: nothing. Not: all.\n" in text


def test_a_terminal_gets_the_same_sections_without_marks() -> None:
    text = render_rule_text(RULE)
    assert [line for line in text.splitlines() if line in HEADINGS] == HEADINGS
    assert "```" not in text
    assert "    CASE = 2" in text


def test_prose_is_filled_to_the_width_and_code_is_not() -> None:
    rule = dataclasses.replace(RULE, why="many words " * 30, bad=(Example(about="a", code="x = 1" + "0" * 90),))
    lines = render_rule_text(rule, width=60).splitlines()
    assert max(len(line) for line in lines if "many words" in line) <= 60
    assert "    x = 1" + "0" * 90 in lines


def test_the_index_links_every_page() -> None:
    assert f"[LD001 stale-read]({compute_page_name(RULE)})" in render_index([RULE])


def test_pages_are_written_checked_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> int:
        return run_page_command([str(tmp_path), *arguments], "usage", lambda: render_pages([RULE]))

    (tmp_path / "ld000-gone.md").write_text("old")
    assert run("--check") == 1
    assert "ld001-stale-read.md is stale" in capsys.readouterr().err
    assert run() == 0
    assert run("--check") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "ld001-stale-read.md"]
    assert run("--nonsense") == 2


def test_the_pages_in_docs_are_up_to_date() -> None:
    assert main([str(DOCS / "rules"), "--check"]) == 0
