"""`programs/chosen_value.py`: numbers that a choice keeps from being wrong contradict no verdict."""

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


def test_the_verdict_is_that_of_all_arguments(report: CaseReport) -> None:
    assert report.outputs == {"chosen": Verdict.CLOBBERED}


def test_a_value_that_is_not_chosen_makes_no_disagreement(report: CaseReport) -> None:
    assert report.disagreements == ()
