"""One verdict out of several: programs that one schedule may stand for, schedules that one module could have."""

import pytest

from ligerdiag.analysis.verdict.comparison import Standing, choose_verdict, find_standing, join_outputs, join_read
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import ReadKind

FRESH, LATENT, UNKNOWN, CLOBBERED, STALE = Verdict


def test_an_output_that_programs_do_not_agree_in_is_unknown() -> None:
    assert join_outputs([{"a": STALE, "b": FRESH, "c": FRESH}, {"a": STALE, "b": LATENT}]) == {
        "a": STALE,
        "b": UNKNOWN,
        "c": UNKNOWN,
    }


def test_a_read_is_unknown_where_programs_differ_and_where_its_output_is() -> None:
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=False) is ReadKind.STALE
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=True) is ReadKind.UNKNOWN
    assert join_read(ReadKind.STALE, [ReadKind.STALE, ReadKind.FRESH], reaches_unknown=False) is ReadKind.UNKNOWN
    assert join_read(ReadKind.FRESH, [None], reaches_unknown=False) is ReadKind.UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "standing", "shown"),
    [
        ({FRESH}, Standing.FORCED, FRESH),
        ({FRESH, LATENT}, Standing.OPEN, LATENT),
        ({LATENT}, Standing.OPEN, LATENT),
        ({STALE, FRESH}, Standing.OPEN, LATENT),
        ({LATENT, UNKNOWN}, Standing.OPEN, LATENT),
        ({STALE}, Standing.LOST, STALE),
        ({STALE, CLOBBERED}, Standing.LOST, STALE),
        ({STALE, UNKNOWN}, Standing.UNKNOWN, UNKNOWN),
        ({UNKNOWN}, Standing.UNKNOWN, UNKNOWN),
    ],
)
def test_an_output_stands_as_all_schedules_say(verdicts: set[Verdict], standing: Standing, shown: Verdict) -> None:
    assert find_standing(verdicts) is standing
    assert choose_verdict(standing, STALE) is shown
