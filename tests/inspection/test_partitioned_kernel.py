"""What stands behind a `custom_partitioning` is known from the schedule alone, where XLA has put it in its place."""

from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAM = Path(__file__).with_name("partitioned_kernel.py")


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> dict[str, CaseReport]:
    options = CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache, replay=False)
    return {report.id: report for report in check(options).cases}


def test_a_kernel_that_declares_its_write_is_seen_through(reports: dict[str, CaseReport]) -> None:
    report = reports["partitioned[aliased]"]
    assert report.error == ""
    assert report.outputs == {"losses": Verdict.FRESH, "weight": Verdict.FRESH}
    assert report.findings == ()


def test_one_that_hides_it_leaves_the_outputs_unknown(reports: dict[str, CaseReport]) -> None:
    report = reports["partitioned[hidden]"]
    assert report.error == ""
    assert report.outputs["weight"] is Verdict.UNKNOWN
