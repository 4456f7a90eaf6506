"""`programs/sunk.py`: an instruction that XLA moved behind a product is not the operation whose name it has.

By hand: a factor that no kernel overwrites has no wrong version. A factor with `+ total - total` is read after the kernel,
and so is a conversion of the overwritten value that XLA omits, also if the overwritten one gets its name. Only `low` of
`merged_halves`, which means the old contents and shares a product with `high`, is clobbered, and only the products of
`old_factor`, whose one factor XLA takes from the product that the kernel's operand is a transpose of, are stale. The
replayed numbers say the same.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs" / "sunk.py"
WRONG = {
    "merged_halves": {"low": Verdict.CLOBBERED},
    "old_factor": dict.fromkeys(("low", "high", "left", "right"), Verdict.STALE),
}


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> Mapping[str, CaseReport]:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("parts", 8),
        ("rotated", 4),
        ("merged_halves", 3),
        ("behind_conversions", 3),
        ("old_factor", 6),
        ("merged_conversion", 2),
        ("sums", 3),
    ],
)
def test_only_a_read_of_another_version_makes_an_output_wrong(
    reports: Mapping[str, CaseReport], name: str, outputs: int
) -> None:
    report = reports[name]
    assert len(report.outputs) == outputs
    assert {one: verdict for one, verdict in report.outputs.items() if not verdict.is_right} == WRONG.get(name, {})
    assert not report.disagreements
