"""The configuration file gives defaults; the command line overrides them."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_report


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pyproject.toml"


def test_targets_come_from_the_file_unless_given(api: FakeApi, run_command: RunCommand, project: Path) -> None:
    project.write_text("[tool.ligerdiag]\ntargets = ['a100', 'b200']\n")
    run_command("check")
    run_command("check", "--target", "h100")
    assert [(asked.targets, asked.usual_targets) for asked in api.asked] == [
        (("a100", "b200"), ("a100", "b200")),
        (("h100",), ("a100", "b200")),
    ]


def test_fail_on_comes_from_the_file_unless_given(api: FakeApi, run_command: RunCommand, project: Path) -> None:
    api.report = make_report(make_case(status=Status.FINDINGS, expected=None, outputs={"a": Verdict.LATENT}))
    assert run_command("check").code == 1
    project.write_text("[tool.ligerdiag]\nfail_on = 'error'\n")
    assert run_command("check").code == 0
    assert run_command("check", "--fail-on", "warning").code == 1


def test_strict_comes_from_the_file_unless_given(api: FakeApi, run_command: RunCommand, project: Path) -> None:
    api.report = make_report(make_case(status=Status.INCONCLUSIVE))
    assert run_command("check").code == 0
    project.write_text("[tool.ligerdiag]\nstrict = true\n")
    assert run_command("check").code == 4
    assert run_command("check", "--no-strict").code == 0


def test_suppressions_in_the_file_are_passed_on(
    api: FakeApi, run_command: RunCommand, project: Path, tmp_path: Path
) -> None:
    project.write_text("[tool.ligerdiag]\nstrict = true\n")
    other = tmp_path / "other.toml"
    other.write_text("[[tool.ligerdiag.suppress]]\nrule = 'LD003'\nreason = 'only logged'\n")
    run_command("check", "--config", str(other))
    (asked,) = api.asked
    assert [(entry.rule, entry.reason) for entry in asked.suppress] == [("LD003", "only logged")]


def test_a_wrong_key_in_the_file_is_an_input_error_before_any_work(
    api: FakeApi, run_command: RunCommand, project: Path
) -> None:
    project.write_text("[tool.ligerdiag]\nsupress = []\n")
    outcome = run_command("check")
    assert (outcome.code, api.asked) == (2, [])
    assert outcome.err.count("\n") == 1
    assert "pyproject.toml`: expected one of suppress, effects" in outcome.err


def test_the_choices_of_the_autotuner_come_from_the_file_unless_given(
    api: FakeApi, run_command: RunCommand, project: Path
) -> None:
    project.write_text("[tool.ligerdiag]\nautotune_results = 'tuning/h100.pbtxt'\n")
    run_command("check")
    run_command("check", "--autotune-results", "other.pb")
    assert [asked.autotune_results for asked in api.asked] == [project.parent / "tuning/h100.pbtxt", Path("other.pb")]
