"""Combines verdicts: of several programs that one schedule may belong to, or of several schedules of one module."""

import pytest

from ligerdiag.analysis.verdict.comparison import (
    OrderSensitivity,
    choose_verdict,
    find_order_sensitivity,
    join_outputs,
    join_read,
)
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import ReadKind

FRESH, LATENT, UNKNOWN, CLOBBERED, STALE = Verdict


def test_an_output_on_which_programs_disagree_is_unknown() -> None:
    assert join_outputs([{"a": STALE, "b": FRESH, "c": FRESH}, {"a": STALE, "b": LATENT}]) == {
        "a": STALE,
        "b": UNKNOWN,
        "c": UNKNOWN,
    }


def test_a_read_is_unknown_if_programs_disagree_or_its_output_is_unknown() -> None:
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=False) is ReadKind.STALE
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=True) is ReadKind.UNKNOWN
    assert join_read(ReadKind.STALE, [ReadKind.STALE, ReadKind.FRESH], reaches_unknown=False) is ReadKind.UNKNOWN
    assert join_read(ReadKind.FRESH, [None], reaches_unknown=False) is ReadKind.UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "sensitivity", "shown"),
    [
        ({FRESH}, OrderSensitivity.FORCED, FRESH),
        ({FRESH, LATENT}, OrderSensitivity.OPEN, LATENT),
        ({LATENT}, OrderSensitivity.OPEN, LATENT),
        ({STALE, FRESH}, OrderSensitivity.OPEN, LATENT),
        ({LATENT, UNKNOWN}, OrderSensitivity.OPEN, LATENT),
        ({STALE}, OrderSensitivity.LOST, STALE),
        ({STALE, CLOBBERED}, OrderSensitivity.LOST, STALE),
        ({STALE, UNKNOWN}, OrderSensitivity.UNKNOWN, UNKNOWN),
        ({UNKNOWN}, OrderSensitivity.UNKNOWN, UNKNOWN),
    ],
)
def test_the_verdicts_of_all_schedules_give_the_order_sensitivity(
    verdicts: set[Verdict], sensitivity: OrderSensitivity, shown: Verdict
) -> None:
    assert find_order_sensitivity(verdicts) is sensitivity
    assert choose_verdict(sensitivity, STALE) is shown
