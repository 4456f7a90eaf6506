"""Baselines through `api`: the recorded file, the drift, and the notes of the run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Severity
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.report.baseline import parse_baseline, render_baseline
from ligerdiag.rules.schedules.ld015_schedule_drift import OTHER_VALUE, REMOVED_BARRIER
from tests.report.samples import make_case, make_report

LINE = "# h is meant to be doubled by now"
ALLOWED = REMOVED_BARRIER.code.replace(LINE, "# ligerdiag: allow schedule-drift seen and wanted").replace(
    "CASE = Case(", 'CASE = Case(expected="hazard", expected_rules=("LD001", "LD006"), '
)
FILES = {
    "tied.py": REMOVED_BARRIER.recorded,
    "released.py": REMOVED_BARRIER.code,
    "allowed.py": ALLOWED,
    "before.py": OTHER_VALUE.recorded,
    "after.py": "# a new line\n\n\n" + OTHER_VALUE.code,
}
"""Files of one case each; a baseline identifies a case by its id, not by its file."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The files, compiled at once: the tests then find everything in the cache."""
    folder = tmp_path_factory.mktemp("files")
    for name, code in FILES.items():
        (folder / name).write_text(code, encoding="utf-8")
    api.check(api.CheckOptions(selectors=(str(folder),), cache_directory=cache, replay=False))
    return folder


class Project:
    """The files and a baseline."""

    def __init__(self, folder: Path, baseline: Path, cache: Path) -> None:
        self.folder, self.baseline = folder, baseline
        self.options = api.CheckOptions(cache_directory=cache, replay=False)

    def select(self, *names: str) -> api.CheckOptions:
        return replace(self.options, selectors=tuple(str(self.folder / name) for name in names))

    def record(self, name: str) -> None:
        options = replace(self.select(name), record=True)
        self.baseline.write_text(api.render_record(api.check(options), options, self.baseline), encoding="utf-8")

    def check(self, name: str) -> CheckReport:
        return api.check(replace(self.select(name), baseline=self.baseline))


@pytest.fixture
def project(folder: Path, tmp_path: Path, cache: Path) -> Project:
    return Project(folder, tmp_path / "schedules.json", cache)


def drifts(report: CheckReport) -> list[str]:
    return [finding.message for case in report.cases for finding in case.findings if finding.rule == "LD015"]


def test_an_unchanged_file_has_no_drift_and_records_the_same_text(project: Project) -> None:
    project.record("released.py")
    text = project.baseline.read_text()
    report = project.check("released.py")
    assert drifts(report) == []
    assert report.notes[-1].startswith("0 of 1 compile drifted")
    project.record("released.py")
    assert project.baseline.read_text() == text
    assert str(project.folder) not in text


def test_moved_lines_and_other_outputs_are_not_a_drift(project: Project) -> None:
    project.record("before.py")
    report = project.check("after.py")
    assert drifts(report) == []
    assert report.notes[-1].startswith("0 of 1 compile drifted")


def test_a_moved_reader_is_a_warning_besides_the_verdict(project: Project) -> None:
    project.record("tied.py")
    report = project.check("released.py")
    (finding,) = [one for one in report.cases[0].findings if one.rule == "LD015"]
    assert finding.severity is Severity.WARNING
    assert "`dot_general` (released.py:28) moved from after to before the kernel" in finding.message
    assert ("verdict", "`back` was fresh and is stale") in finding.evidence
    assert report.notes[-1].startswith("1 of 1 compile drifted")


def test_a_comment_on_the_reader_s_line_allows_the_drift_without_contradicting_the_expectation(
    project: Project,
) -> None:
    project.record("tied.py")
    report = project.check("allowed.py")
    (finding,) = [one for one in report.cases[0].findings if one.rule == "LD015"]
    assert finding.suppressed is not None
    assert report.cases[0].status is Status.EXPECTED


def test_new_and_missing_cases_and_other_versions_are_notes(project: Project) -> None:
    project.record("released.py")
    old = parse_baseline(project.baseline.read_text())
    renamed = {replace(key, case="old name"): facts for key, facts in old.entries.items()}
    versions = {"default": {**old.toolchains["default"], "jax": "0.9"}}
    project.baseline.write_text(render_baseline(replace(old, entries=renamed, toolchains=versions, ligerdiag="0")))
    notes = "\n".join(project.check("released.py").notes)
    assert "0 of 0 compiles drifted" in notes
    assert "the baseline was recorded with jax 0.9; this run has jax 0." in notes
    assert "the baseline was recorded by ligerdiag 0; this is" in notes
    assert "not in the baseline, so not compared with it: `released` on h100; `--record" in notes
    assert "in the baseline and not in this run, because not selected or gone: `old name` on h100" in notes


def test_recording_again_keeps_the_records_of_other_runs(project: Project) -> None:
    project.record("released.py")
    project.record("before.py")
    assert [case["id"] for case in json.loads(project.baseline.read_text())["cases"]] == ["released", "unconcerned"]


def test_a_case_that_could_not_be_analysed_is_not_recorded() -> None:
    failed = make_case("failed", Status.ERROR, error="aborted")
    assert [case.id for case in api.list_recordable(make_report(failed, make_case("right")))] == ["right"]


def test_two_cases_with_one_id_cannot_be_recorded(project: Project) -> None:
    options = replace(project.select("tied.py", "released.py"), record=True)
    with pytest.raises(InputError, match=r"two cases are called `released`, in .*released.py"):
        api.check(options)


def test_an_unreadable_baseline_ends_the_run_before_any_work(project: Project) -> None:
    with pytest.raises(InputError, match="no baseline"):
        project.check("no such file.py")
