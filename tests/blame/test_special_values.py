"""A wrong read that only asks whether there is a NaN is a specific warning, and right numbers do not contradict it."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.report import CaseReport, Status

FILE = Path(__file__).with_name("special_values.py")
ASKED = {
    "median": "a NaN",
    "quantiles": "a NaN",
    "nan_guard": "a NaN",
    "nan_maximum": "special values",
    "nan_mean": "a NaN",
    "finite_guard": "a NaN or an infinite value",
    "infinite_guard": "an infinite value",
}
"""Case to the only question that the read for `of` asks. `of` is right on numbers without special values."""
MORE = ("any_nan", "skipped_step", "in_a_scan", "in_bfloat16", "largest", "bound")
"""In these, XLA also merges another read that uses the value itself: a sum, a maximum, a comparison with a number."""
DAILY = ("median", "finite_guard", "removed", "bound")
EACH = [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in (*ASKED, *MORE, "removed")]


@pytest.fixture(scope="module")
def reports(shared_cache: Path, request: pytest.FixtureRequest) -> dict[str, CaseReport]:
    names = DAILY if request.config.option.markexpr == "not nightly" else (*ASKED, *MORE, "removed")
    selectors = tuple(f"{FILE}::{name}" for name in names)
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache))
    return {case.id: case for case in report.cases}


@pytest.mark.parametrize("name", EACH)
def test_a_read_for_special_values_is_distinguished_from_others(reports: dict[str, CaseReport], name: str) -> None:
    case = reports[name]
    assert case.outputs["of"] is Verdict.STALE
    assert case.status is Status.FINDINGS
    assert not case.disagreements
    about = [one for one in case.findings if "of" in one.outputs and one.rule in ("LD001", "LD002")]
    if name in ASKED:
        assert {one.severity for one in about} == {Severity.WARNING}
        assert all("`of` only tests the old value" in one.message for one in about)
        assert any(
            "the numbers are right unless `halve_kernel` creates or removes" in t
            for one in about
            for _, t in one.evidence
        )
        assert name == "nan_maximum" or {one.message.rpartition(" for ")[2] for one in about} == {ASKED[name]}
    else:
        assert Severity.ERROR in {one.severity for one in about}
    if name == "removed":
        assert (
            "note",
            "the replayed numbers are wrong, so the kernel does create or remove such a special value",
        ) in about[0].evidence
