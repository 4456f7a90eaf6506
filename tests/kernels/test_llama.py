"""The loss and step of the Llama, split over four CPU devices, with kernels run by Triton's interpreter."""

import on_a_mesh
import pytest

from kernels.llama.config import CONFIGS, count_parameters


def test_the_loss_of_a_split_vocabulary_equals_that_of_the_whole_one(interpreted_on_four_devices):
    errors = interpreted_on_four_devices(on_a_mesh.compare_split_vocabulary, z_loss=0.1, logit_soft_cap=4.0)
    assert {name: error for name, error in errors.items() if not error < 1e-5} == {}  # f32, dozens of products


@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["fsdp", "fsdp+tp", "fsdp+tp+sp"])
def test_a_step_with_all_kernels_on_a_mesh_equals_plain_jax(layout, interpreted_on_four_devices):
    errors = interpreted_on_four_devices(on_a_mesh.compare_steps, layout)
    assert errors.pop("loss") < 1e-3
    assert {name: error for name, error in errors.items() if not error < 4e-2} == {}  # bf16, two layers


def test_the_partitioner_calls_a_row_wise_function_on_each_device(interpreted_on_four_devices):
    errors, gathers = interpreted_on_four_devices(on_a_mesh.compare_partitioned)
    assert errors == {"at target": 0.0, "softmax": pytest.approx(0.0, abs=1e-6)}
    assert gathers == 0


def test_the_sizes_are_those_of_llama_3():
    billions = {name: count_parameters(CONFIGS[name]) / 1e9 for name in ("1B", "8B", "70B")}
    assert billions == pytest.approx({"1B": 1.236, "8B": 8.03, "70B": 70.55}, rel=1e-3)
