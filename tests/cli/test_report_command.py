"""`ligerdiag report` inspects a dump and writes pages."""

from pathlib import Path
from typing import Any

import pytest

from ligerdiag.model.report import Noun, Status
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_finding, make_report

REPORT = make_report(make_case("step", Status.FINDINGS, expected=None, findings=(make_finding(),)), noun=Noun.MODULE)


@pytest.fixture
def asked(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records the options of the inspection."""
    asked: list[Any] = []

    def inspect(options: Any, show: Any) -> Any:
        asked.append(options)
        return REPORT

    monkeypatch.setattr(api, "inspect", inspect, raising=False)
    return asked


def test_report_inspects_and_writes_pages(asked: list[Any], run_command: RunCommand, tmp_path: Path) -> None:
    outcome = run_command("report", "dump", "--html", str(tmp_path / "pages"), "--module", "*step*")
    assert outcome.code == 1
    assert "error[LD002]" in outcome.out
    assert f"html: {tmp_path / 'pages' / 'index.html'}" in outcome.err
    (options,) = asked
    assert (options.paths, options.module, options.view) == ((Path("dump"),), "*step*", True)
    assert "1 module" in (tmp_path / "pages" / "index.html").read_text("utf-8")


def test_report_has_its_own_default_directory(
    asked: list[Any], run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_command("report", "dump")
    assert (tmp_path / "ligerdiag-report" / "index.html").is_file()


def test_inspect_writes_pages_only_on_request(
    asked: list[Any], run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_command("inspect", "dump")
    assert list(tmp_path.iterdir()) == []
    run_command("inspect", "dump", "--html", "pages")
    assert [options.view for options in asked] == [False, True]
    assert (tmp_path / "pages" / "index.html").is_file()
