"""A program can be right on one GPU and wrong on another."""

from collections.abc import Mapping

import pytest

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.terminal.full_report import render_terminal
from tests.api.conftest import ROOT, Check
from tests.case_levels import LARGE, SMALL

TARGETS = ("a100", "h100", "b200")
ROWS = [f"seed_flce[False-float32-True-{shape}]" for shape in (SMALL, LARGE)]


@pytest.fixture(scope="module")
def report(check: Check) -> CheckReport:
    return check(*(f"{ROOT / 'cases' / 'seed_flce.py'}::{row}" for row in ROWS), targets=TARGETS)


@pytest.fixture(scope="module")
def judged(report: CheckReport) -> Mapping[tuple[str, str], CaseReport]:
    return {(case.id, case.target): case for case in report.cases}


@pytest.mark.parametrize("row", ROWS)
def test_on_an_a100_the_hidden_rows_are_right_by_luck(row: str, judged: Mapping[tuple[str, str], CaseReport]) -> None:
    outputs = judged[row, "a100"].outputs
    assert outputs["loss"] is Verdict.FRESH
    assert {verdict for name, verdict in outputs.items() if name != "loss"} == {Verdict.LATENT}


@pytest.mark.parametrize("target", ["h100", "b200"])
@pytest.mark.parametrize("row", ROWS)
def test_on_other_gpus_a_gradient_is_stale(row: str, target: str, judged: Mapping[tuple[str, str], CaseReport]) -> None:
    assert Verdict.STALE in judged[row, target].outputs.values()


def test_a_hazard_is_expected_on_each_gpu(report: CheckReport) -> None:
    assert {case.status for case in report.cases} == {Status.EXPECTED}
    assert len(report.cases) == len(ROWS) * len(TARGETS)


def test_the_table_shows_the_gpus_side_by_side(report: CheckReport) -> None:
    head, row = render_terminal(report).splitlines()[:2]
    assert head.split() == ["case", "status", *TARGETS]
    assert row.count("loss fresh") == len(TARGETS)
