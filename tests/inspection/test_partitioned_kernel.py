"""A `custom_partitioning` intends the function on whole arrays, although XLA runs another one on the shards."""

from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CaseReport

PROGRAM = Path(__file__).with_name("partitioned_kernel.py")
FRESH, STALE, UNKNOWN = Verdict.FRESH, Verdict.STALE, Verdict.UNKNOWN


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> dict[str, CaseReport]:
    options = CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache)
    return {report.id: report for report in check(options).cases}


EXPECTED = {
    "result[hidden]": {"sums": FRESH, "read": STALE},
    "result[trivial]": {"sums": FRESH, "read": FRESH},
    "result[barrier]": {"sums": FRESH, "read": FRESH},
    "result[aliased]": {"sums": FRESH, "read": FRESH},
    "result[out_of_place]": {"sums": FRESH, "read": FRESH},
    "twice[hidden]": {"sums": FRESH, "more": STALE},
    "unused[hidden]": {"read": STALE},
    "inner[hidden]": {"sums": FRESH, "read": STALE},
    "operand[hidden]": {"sums": FRESH, "read": STALE},
    "formula[hidden]": {"sums": UNKNOWN, "read": UNKNOWN},
    "formula[aliased]": {"sums": FRESH, "read": FRESH},
    "no_kernel[hidden]": {"sums": UNKNOWN, "read": UNKNOWN},
}


def test_the_verdict_is_about_the_function_on_whole_arrays(reports: dict[str, CaseReport]) -> None:
    assert {name: report.error for name, report in reports.items()} == dict.fromkeys(EXPECTED, "")
    assert {name: dict(report.outputs) for name, report in reports.items()} == EXPECTED


def test_replay_runs_the_function_on_whole_arrays_and_agrees(reports: dict[str, CaseReport]) -> None:
    attributions = {FRESH: Attribution.FRESH, STALE: Attribution.STALE}
    numbers = {name: report.replay.outputs if report.replay else {} for name, report in reports.items()}
    for name, outputs in EXPECTED.items():
        for output, verdict in outputs.items():
            assert numbers[name][output].attribution is attributions.get(verdict, numbers[name][output].attribution), (
                name
            )
    # neither version is intended: the formula gives 2 h, and the schedule reads h
    assert numbers["formula[hidden]"]["read"].attribution is Attribution.NEITHER


def test_a_call_that_another_function_makes_is_not_reported_as_removed(reports: dict[str, CaseReport]) -> None:
    rules = {name: {finding.rule for finding in report.findings} for name, report in reports.items()}
    assert [name for name, found in rules.items() if "LD007" in found] == ["unused[hidden]"]
    assert "LD014" in rules["formula[hidden]"] & rules["no_kernel[hidden]"]
