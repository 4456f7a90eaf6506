"""The helper for users, with the jax-triton installed here and, in the nightly run, with the newest."""

import json
import subprocess
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from tools.documents import ROOT

PROGRAM = ROOT / "tests" / "compile" / "programs" / "in_place.py"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaseReport, ...]:
    options = CheckOptions(selectors=(str(PROGRAM),), cache_directory=tmp_path_factory.mktemp("cache"))
    return check(options).cases


def test_every_form_equals_plain_jnp_and_is_fresh(reports: tuple[CaseReport, ...]) -> None:
    assert len(reports) == 18
    for case in reports:
        assert case.error == "", case.id
        assert set(case.outputs.values()) == {Verdict.FRESH}, case.id
        assert case.replay is not None
        assert case.replay.state.value == "done", case.replay.reason
        assert case.disagreements == (), case.id
        assert case.coverage.hidden_writes == 0, case.id


def test_no_form_has_a_finding(reports: tuple[CaseReport, ...]) -> None:
    assert {case.id: [finding.rule for finding in case.findings] for case in reports if case.findings} == {}


@pytest.mark.nightly
def test_the_newest_jax_triton_agrees(plain_python: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = (str(plain_python), "-m", "ligerdiag", "check", str(PROGRAM), "--output", f"json={report}")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(report.read_text(encoding="utf-8"))["cases"]
    assert [case["status"] for case in cases] == ["as expected"] * 18
    assert [case["findings"] for case in cases] == [[]] * 18
