"""`ligerdiag diff`: options, exit codes and formats; `check --record` and `--baseline`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ligerdiag.api.checking import list_recordable, render_record
from ligerdiag.cli.exit_codes import FailOn, compute_difference_code, compute_exit_code
from ligerdiag.model.findings import Severity, Suppression, SuppressionKind
from ligerdiag.model.report import CaseReport, Progress, Status
from ligerdiag.report.baseline import load_baseline, parse_baseline
from ligerdiag.report.comparisons import Difference, DifferenceReport
from ligerdiag.run_options import DiffOptions as Options
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_finding, make_report
from tests.report.test_difference import FAILED, MOVED, SAME, UNPLACED, make_difference

DRIFT = make_finding(rule="LD015", severity=Severity.WARNING)


@dataclass
class DiffApi(FakeApi):
    """Also answers `diff` and `--record`; the recording is real."""

    differences: DifferenceReport = field(default_factory=lambda: DifferenceReport(differences=(MOVED,)))
    compared: list[Options] = field(default_factory=list)
    load_baseline = staticmethod(load_baseline)
    list_recordable = staticmethod(list_recordable)
    render_record = staticmethod(render_record)

    def diff(self, options: Options, on_progress: Callable[[Progress], None] | None = None) -> DifferenceReport:
        self.compared.append(options)
        return self.differences


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> DiffApi:
    import sys

    import ligerdiag

    fake = DiffApi()
    monkeypatch.setitem(sys.modules, "ligerdiag.api", fake)  # type: ignore[arg-type]
    monkeypatch.setattr(ligerdiag, "api", fake, raising=False)
    return fake


def test_lists_with_commas_give_two_sides(api: DiffApi, run_command: RunCommand) -> None:
    run_command("diff", "a", "b", "--targets", "a100,h100", "--toolchains", "seed,default", "--module", "*m*")
    (asked,) = api.compared
    assert (asked.subjects, asked.targets, asked.toolchains) == (("a", "b"), ("a100", "h100"), ("seed", "default"))
    assert (asked.module, asked.timeout) == ("*m*", None)


def test_the_exit_code_depends_on_the_differences(api: DiffApi, run_command: RunCommand) -> None:
    outcome = run_command("diff", "a", "b")
    assert outcome.code == 1
    assert "moved from after to before the kernel" in outcome.out
    api.differences = DifferenceReport(differences=(SAME,))
    assert run_command("diff", "a", "b").code == 0


def test_json_goes_to_standard_output_or_to_a_file(api: DiffApi, run_command: RunCommand, tmp_path: Path) -> None:
    assert json.loads(run_command("diff", "a", "b", "--format", "json").out)["exit_code"] == 1
    outcome = run_command("diff", "a", "b", "--format", "json", "--output", str(tmp_path / "d.json"))
    assert json.loads((tmp_path / "d.json").read_text())["differences"][0]["differs"] is True
    assert "compared 1 in" in outcome.out


@pytest.mark.parametrize(
    ("differences", "code"),
    [
        ((SAME,), 0),
        ((SAME, MOVED), 1),
        ((MOVED, FAILED), 3),
        ((UNPLACED, MOVED), 3),
        ((make_difference((), (), status=Status.ERROR, error="no such axis", error_exit_code=2), MOVED), 2),
        ((), 5),
    ],
)
def test_the_most_severe_result_is_the_exit_code(differences: tuple[Difference, ...], code: int) -> None:
    assert compute_difference_code(DifferenceReport(differences=differences)) == code


def test_an_interrupted_comparison_exits_with_130() -> None:
    assert compute_difference_code(DifferenceReport(differences=(FAILED,), interrupted=True)) == 130


def test_a_run_is_recorded_after_its_report(api: DiffApi, run_command: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    outcome = run_command("check", "--record", str(path))
    assert "recorded 1 schedules" in outcome.err
    assert [key.case for key in parse_baseline(path.read_text()).entries] == ["flce[hidden]"]
    assert (api.asked[0].record, api.asked[0].baseline) == (True, None)


def test_an_interrupted_run_records_nothing(api: DiffApi, run_command: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    run_command("check", "--record", str(path))
    text = path.read_text()
    api.report = make_report(make_case("other"), interrupted=True)
    outcome = run_command("check", "--record", str(path))
    assert outcome.code == 130
    assert "recorded nothing: the run was interrupted" in outcome.err
    assert path.read_text() == text


def test_a_file_of_another_kind_is_not_overwritten(api: DiffApi, run_command: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import jax\n")
    outcome = run_command("check", "--record", str(path))
    assert outcome.code == 2
    assert "is no baseline that can be read" in outcome.err
    assert api.asked == []
    assert path.read_text() == "import jax\n"


def test_the_baseline_comes_from_the_config_unless_given_or_recorded(
    api: DiffApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.ligerdiag]\nbaseline = 'b.json'\n")
    run_command("check")
    run_command("check", "--baseline", "c.json")
    run_command("check", "--record", "d.json")
    assert [asked.baseline for asked in api.asked] == [tmp_path / "b.json", Path("c.json"), None]


@pytest.mark.parametrize(
    ("case", "fail_on", "code"),
    [
        (make_case(findings=(DRIFT,)), FailOn.WARNING, 1),
        (make_case(findings=(DRIFT,)), FailOn.ERROR, 0),
        (make_case(findings=(DRIFT,)), FailOn.NEVER, 0),
        (
            make_case(
                findings=(
                    make_finding(
                        rule="LD015",
                        severity=Severity.WARNING,
                        suppressed=Suppression(kind=SuppressionKind.CONFIG, reason="r", where="w"),
                    ),
                )
            ),
            FailOn.NOTE,
            0,
        ),
    ],
)
def test_a_drift_fails_a_run_whatever_the_expectation(case: CaseReport, fail_on: FailOn, code: int) -> None:
    assert case.status is Status.EXPECTED
    assert compute_exit_code(make_report(case), fail_on=fail_on, strict=False) == code
