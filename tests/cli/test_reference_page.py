"""docs/cli.md is the help text of the application."""

from pathlib import Path

import pytest

from tools.cli_reference import main, render_reference

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert main([str(DOCS / "cli.md"), "--check"]) == 0


def test_a_stale_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "cli.md"
    assert main([str(page), "--check"]) == 1
    assert main([str(page)]) == 0
    assert main([str(page), "--check"]) == 0
    page.write_text(page.read_text() + "more")
    assert main([str(page), "--check"]) == 1
    assert "run `make docs`" in capsys.readouterr().err


def test_wrong_usage_exits_with_2() -> None:
    assert main([]) == 2


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = render_reference()
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert render_reference() == text
