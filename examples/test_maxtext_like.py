"""The train step of maxtext_like.py, judged without a GPU: `pytest examples/test_maxtext_like.py`."""

from functools import partial

import pytest
from maxtext_like import Config, make_arguments, train_step


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["aliased", "shard_map"])
def test_every_array_of_the_next_state_sees_what_the_kernel_wrote(schedule, mode):
    config = Config(loss_mode=mode)
    schedule.check(partial(train_step, config), *make_arguments(config), target="h100")


def test_the_workaround_does_not_help_where_the_vocabulary_is_split(schedule):
    config = Config(loss_mode="trivial")
    report = schedule.check(partial(train_step, config), *make_arguments(config), target="h100", expected="hazard")
    assert report.outputs["loss"] == "fresh"
    assert report.outputs["grad_norm"] == "stale"
