"""`programs/chosen_value.py`: right numbers contradict no verdict if a `where` just happens to choose the right value."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAM = Path(__file__).parent / "programs" / "chosen_value.py"


@pytest.fixture(scope="module")
def report(shared_cache: Path) -> CaseReport:
    options = api.CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    return case


def test_the_verdict_holds_for_all_arguments(report: CaseReport) -> None:
    assert report.outputs == {"chosen": Verdict.CLOBBERED}


def test_a_wrong_value_that_is_not_chosen_is_not_a_disagreement(report: CaseReport) -> None:
    assert report.disagreements == ()
