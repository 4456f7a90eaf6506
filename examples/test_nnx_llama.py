"""The train step of nnx_llama.py, judged without a GPU: `pytest examples/test_nnx_llama.py`."""

from functools import partial

import pytest
from nnx_llama import make_arguments, train_step


@pytest.mark.parametrize("mode", ["aliased", "shard_map"])
def test_every_array_of_the_next_state_sees_what_the_kernel_wrote(schedule, mode):
    report = schedule.check(partial(train_step, mode=mode), *make_arguments(), target="h100")
    assert "state.0.head.kernel" in "".join(report.outputs)


def test_the_workaround_does_not_help_where_the_parameters_are_split(schedule):
    schedule.check(partial(train_step, mode="trivial"), *make_arguments(), target="h100", expected="hazard")
