"""A test as a user would write it."""

from functools import partial

import pytest
from sample_model.training import loss, make_batch, make_params


@pytest.mark.parametrize("mode", ["hidden", "aliased"])
def test_the_loss(schedule, mode):
    schedule.check(partial(loss, mode=mode), make_params(32), make_batch(32))


@pytest.mark.schedule(replay=False)
@pytest.mark.parametrize("tokens", [8, 8.0])
def test_both_find_one_artifact(schedule, tokens):
    report = schedule.check(partial(loss, mode="aliased"), make_params(32), make_batch(32, int(tokens)), mesh=(2,))
    assert report.outputs == {"loss": "fresh", "clipped": "fresh"}


def test_a_hazard_that_is_known(schedule):
    schedule.check(partial(loss, mode="hidden"), make_params(32), make_batch(32), expected="hazard", replay=False)
