"""The train step of nnx_llama.py, judged without a GPU: `pytest examples/test_nnx_llama.py`."""

from functools import partial

import pytest
from nnx_llama import make_arguments, train_step


@pytest.mark.parametrize("mode", ["shard_map", pytest.param("aliased", marks=pytest.mark.nightly)])
def test_every_array_of_the_next_state_sees_what_the_kernel_wrote(schedule, mode):
    report = schedule.check(partial(train_step, mode=mode), *make_arguments(), target="h100")
    assert any("head" in name for name in report.outputs)


@pytest.mark.nightly
def test_the_program_that_hides_the_write_is_known_to_be_wrong(schedule):
    schedule.check(partial(train_step, mode="hidden"), *make_arguments(), target="h100", expected="hazard")
