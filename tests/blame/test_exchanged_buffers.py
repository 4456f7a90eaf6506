"""Loops that exchange their buffers are called right if they are, and wrong if a value is read too late."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

FILE = Path(__file__).with_name("exchanges.py")
RIGHT = {
    **dict.fromkeys(("plain", "started", "made", "empty", "divided", "gathered", "powers", "normalized"), "latent"),
    **dict.fromkeys(("counted", "counted_by_argument", "scanned", "recorded"), "latent"),
    **dict.fromkeys(("rotated", "rotated_in_a_scan", "two_kernels", "nested"), "latent"),
    **dict.fromkeys(("exchanged_by_cond", "to_and_fro"), "fresh"),
    **dict.fromkeys(("in_a_branch", "in_three_branches", "in_branches_that_read"), "fresh"),
}
"""Case to the verdict on all its outputs. It is `latent` if XLA copies a buffer that a kernel fills in order to
exchange it: no operand and no control edge makes the copy wait for the kernel, and in another legal order it copies
the old contents.
"""

WRONG = {
    "once": {"a", "b", "sum"},
    "in_branches_that_need_the_old": {"total"},
    "needs_the_one_before": {"sums"},
    "needs_the_new_one": {"tops"},
    "rotated_and_kept": {"total"},
    "both_of_one": {"now", "apart", "change"},
    "exchanged_without_need": {"total"},
}
"""Case to its wrong outputs."""

DAILY = (
    "started",
    "rotated",
    "in_a_branch",
    "exchanged_by_cond",
    "needs_the_one_before",
    "in_branches_that_need_the_old",
)
EACH = [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in (*RIGHT, *WRONG)]


@pytest.fixture(scope="module")
def reports(shared_cache: Path, request: pytest.FixtureRequest) -> dict[str, CaseReport]:
    names = DAILY if request.config.option.markexpr == "not nightly" else (*RIGHT, *WRONG)
    selectors = tuple(f"{FILE}::{name}" for name in names)
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache))
    return {case.id: case for case in report.cases}


@pytest.mark.parametrize("name", EACH)
def test_exchanged_buffers_are_judged_as_the_numbers_say(reports: dict[str, CaseReport], name: str) -> None:
    case = reports[name]
    assert not case.disagreements
    wrong = {one for one, verdict in case.outputs.items() if verdict in (Verdict.STALE, Verdict.CLOBBERED)}
    assert wrong == WRONG.get(name, set())
    if name in RIGHT:
        assert {verdict.value for verdict in case.outputs.values()} == {RIGHT[name]}
    assert case.replay is not None
    right = {one for one, numbers in case.replay.outputs.items() if numbers.attribution.value == "fresh"}
    assert right.isdisjoint(wrong) or name == "both_of_one"  # in these cases the numbers are the same either way
    assert set(case.outputs) - wrong <= right
