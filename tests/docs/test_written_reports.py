"""The reproducers of docs/reports/ confirm the reports, in the schedule and in numbers."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

REPORTS = Path(__file__).parents[2] / "docs" / "reports"
FRESH = Verdict.FRESH
REPRODUCERS: dict[str, tuple[dict[str, Verdict], set[str]]] = {
    "workspace": ({"first": FRESH, "second": Verdict.CLOBBERED}, {"LD004", "LD006", "LD008"}),
    "workspace_mended": ({"first": FRESH, "second": FRESH}, set()),
    "add_eight": ({"output": Verdict.UNKNOWN}, {"LD013"}),
    "add_all": ({"output": FRESH}, set()),
    "stacked": ({"doubled": Verdict.STALE}, {"LD022"}),
    "halves": ({"doubled": Verdict.STALE}, {"LD022"}),
}
"""Case name to the verdicts of its outputs and its rules; tests/hazards/test_newest_examples.py uses them too."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseReport]:
    options = api.CheckOptions(
        selectors=tuple(str(path) for path in sorted(REPORTS.glob("*.py")) if "CASES" in path.read_text()),
        cache_directory=tmp_path_factory.mktemp("cache"),
    )
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize(
    ("name", "verdicts", "rules"), [(name, verdicts, rules) for name, (verdicts, rules) in REPRODUCERS.items()]
)
def test_a_reproducer_has_the_report_s_findings(
    cases: dict[str, CaseReport], name: str, verdicts: dict[str, Verdict], rules: set[str]
) -> None:
    case = cases[name]
    assert not case.error, case.log_tail
    assert case.outputs == verdicts
    assert {finding.rule for finding in case.findings} == rules
    assert not case.disagreements
