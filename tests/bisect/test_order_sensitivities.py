"""The verdicts under several schedules of one module say whether an output depends on the order."""

import pytest

from ligerdiag.bisect.snapshots import OrderSensitivity, choose_verdict, find_order_sensitivity
from ligerdiag.model.findings import Verdict

FRESH, LATENT, UNKNOWN, CLOBBERED, STALE = Verdict


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
