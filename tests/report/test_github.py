"""Annotations: the right line of the right file, one command a line, and only for cases that need attention."""

import re
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.model.findings import Severity, SourceLine, Suppression, SuppressionKind
from ligerdiag.model.report import CheckReport, Status, UnusedSuppression
from ligerdiag.report.case_places import Repository, find_repository
from ligerdiag.report.markdown import render_github
from tests.report.every_report import REPORTS
from tests.report.samples import make_case, make_finding, make_report

REPOSITORY = Repository(root="/repo", current="/repo")
COMMAND = re.compile(r"::(error|warning|notice) ([^:\r\n]*)::([^\r\n]*)")


def read(report: CheckReport, repository: Repository = REPOSITORY) -> list[dict[str, str]]:
    """Parses the commands like GitHub's runner: properties and message, unescaped."""
    *lines, _ = render_github(report, repository=repository).splitlines()
    commands: list[dict[str, str]] = []
    for line in lines:
        match = COMMAND.fullmatch(line)
        assert match, line
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        fields = {"command": match[1], **properties, "message": match[3]}
        commands.append({name: unescape(value) for name, value in fields.items()})
    return commands


def unescape(text: str) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


def found(**changes: Any) -> CheckReport:
    return make_report(make_case("a", Status.FINDINGS, expected=None, findings=(make_finding(**changes),)))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_every_line_but_the_last_is_a_command(report: CheckReport) -> None:
    read(report)
    assert not render_github(report, repository=REPOSITORY).splitlines()[-1].lstrip().startswith("::")


def test_a_finding_is_annotated_on_its_line_with_rule_and_name() -> None:
    source = SourceLine(file="/repo/src/train.py", line=41)
    (command,) = [one for one in read(found(source=source)) if "LD002" in one["title"]]
    assert {name: command[name] for name in ("command", "file", "line", "endLine", "title")} == {
        "command": "error",
        "file": "src/train.py",
        "line": "41",
        "endLine": "41",
        "title": "LD002 stale-copy",
    }
    assert command["message"].splitlines()[0] == make_finding().message
    assert command["message"].splitlines()[-1] == "in: a"


@pytest.mark.parametrize(("severity", "word"), [*zip(Severity, ("error", "warning", "notice"), strict=True)])
def test_a_severity_is_a_command(severity: Severity, word: str) -> None:
    (command,) = [one for one in read(found(severity=severity)) if "LD002" in one["title"]]
    assert command["command"] == word


def test_only_the_message_names_a_file_outside_of_the_repository() -> None:
    (command,) = [one for one in read(found(source=SourceLine(file="/lib/op.py", line=3))) if "LD002" in one["title"]]
    assert "file" not in command
    assert "line" not in command
    assert command["message"].endswith("\nat: /lib/op.py:3")


def test_without_a_line_the_annotation_names_only_the_file() -> None:
    (command,) = [one for one in read(found(source=SourceLine(file="/repo/a.py", line=0))) if "LD002" in one["title"]]
    assert (command["file"], "line" in command) == ("a.py", False)


def test_an_unexpected_verdict_is_annotated_at_the_definition_of_the_case(tmp_path: Path) -> None:
    file = tmp_path / "cases" / "a.py"
    file.parent.mkdir()
    file.write_text("from ligerdiag import Case\n\nCASE = Case(\n    name='a',\n)\n")
    report = make_report(make_case("a", Status.UNEXPECTED, mismatch="expected `w` stale", source=str(file)))
    (command,) = read(report, Repository(root=str(tmp_path), current=str(tmp_path)))
    assert (command["file"], command["line"], command["title"]) == ("cases/a.py", "3", "unexpected verdict")
    assert command["message"].startswith("expected `w` stale\n")


def test_expected_and_allowed_findings_are_only_counted() -> None:
    said = Suppression(kind=SuppressionKind.CONFIG, reason="r", where="w")
    allowed = make_case("b", Status.ALLOWED, expected=None, outputs={}, findings=(make_finding(suppressed=said),))
    text = render_github(make_report(make_case(findings=(make_finding(),)), allowed), repository=REPOSITORY)
    assert text.count("\n") == 1
    assert "1 as expected, 1 allowed" in text


def test_a_finding_of_many_cases_and_targets_is_one_annotation_that_names_them() -> None:
    cases = [
        make_case(name, Status.FINDINGS, target=target, expected=None, findings=(make_finding(),))
        for name in ("a", "b")
        for target in ("a100", "h100")
    ]
    commands = read(make_report(*cases, targets=("a100", "h100")))
    (command,) = [one for one in commands if "LD002" in one["title"]]
    assert command["message"].endswith("in: a (a100, h100), b (a100, h100)")


def test_errors_come_before_warnings_because_github_shows_few() -> None:
    undecided = make_case("a", Status.INCONCLUSIVE, outputs={})
    note, error = make_finding(rule="LD006", severity=Severity.NOTE), make_finding()
    found = make_case("b", Status.FINDINGS, expected=None, outputs={}, findings=(note, error))
    assert [one["command"] for one in read(make_report(undecided, found))] == ["error", "warning", "notice"]


def test_an_unused_suppression_is_annotated_on_its_comment() -> None:
    unused = UnusedSuppression(
        kind=SuppressionKind.IN_CODE, rule="LD003", reason="r", where="src/a.py:7", message="is not used"
    )
    (command,) = read(make_report(make_case(), unused_suppressions=(unused,)))
    assert (command["command"], command["file"], command["line"]) == ("warning", "src/a.py", "7")


def test_no_name_can_end_its_command_or_start_another() -> None:
    evil = "100%\n::error file=x::y\r,a:b%0A::set-env::\x1b[31m"
    report = make_report(
        make_case(evil, Status.ERROR, error=evil, source=f"/repo/{evil}", log_tail=evil),
        make_case("b", Status.FINDINGS, expected=None, outputs={}, findings=(make_finding(message=evil, rule=evil),)),
    )
    commands = read(report)
    assert len(commands) == 2
    assert commands[0]["message"].startswith("100% ::error file=x::y ,a:b%0A::set-env::")
    assert render_github(report, repository=REPOSITORY).count("\n") == 3


def test_the_repository_is_the_workspace_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    here = str(tmp_path / "sub")
    assert find_repository({}) == Repository(root=here, current=here)
    assert find_repository({"GITHUB_WORKSPACE": str(tmp_path)}) == Repository(root=str(tmp_path), current=here)
    assert find_repository({"GITHUB_WORKSPACE": str(tmp_path / "gone")}).root == here
    assert find_repository({"GITHUB_WORKSPACE": str(tmp_path)}).find("a.py") == "sub/a.py"


def test_a_link_into_the_repository_is_followed(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    repository = Repository(root=str(tmp_path / "repo"), current=str(tmp_path / "repo"))
    assert repository.find(str(tmp_path / "link" / "a.py")) == "a.py"
    assert repository.find(str(tmp_path / "b.py")) == ""
