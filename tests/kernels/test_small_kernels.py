"""Kernels rebuilt from bug reports, run by the interpreters of Triton and of Pallas."""

import numpy as np
import pytest
import small_kernels

TOLERANCE = 1e-5  # f32: a few dozen roundings of 6e-8


def assert_close(errors: small_kernels.Errors) -> None:
    assert {name: error for name, error in errors.items() if not error < TOLERANCE} == {}


@pytest.mark.parametrize("size", [1, 64, 200])
def test_a_sum_is_added_to_the_old_contents(interpreted, size):
    assert_close(interpreted(small_kernels.compare_add_sum, size))


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
@pytest.mark.parametrize("size", [1, 64, 200])
def test_a_search_direction_is_updated(interpreted, size, mode):
    assert_close(interpreted(small_kernels.compare_add_scaled, size, mode))


@pytest.mark.parametrize("columns", [1, 32, 33])
def test_rows_are_permuted(interpreted, columns):
    assert interpreted(small_kernels.compare_permute_rows, columns) == 0


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
def test_the_pointer_forging_kernel_gives_the_same_result_in_harmless_modes(interpreted, mode):
    assert_close(interpreted(small_kernels.compare_scale_by_address, 1500, mode))


@pytest.mark.parametrize("backend", ["triton", "pallas"])
def test_a_range_is_multiplied_and_the_rest_is_unchanged(interpreted, backend):
    assert interpreted(small_kernels.compute_range, 1, 5, backend) == [0, 10, 20, 30, 40, 5, 6, 7]


def test_two_aliased_outputs_without_stores_are_the_inputs(interpreted):
    assert interpreted(small_kernels.compute_left) == [[0, 1, 2, 3], [2, 2, 2, 2]]


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_pallas_twin_agrees_with_the_reference(interpreted, reduction, label_smoothing, mode):
    assert_close(
        interpreted(
            small_kernels.compare_pallas_cross_entropy, reduction=reduction, label_smoothing=label_smoothing, mode=mode
        )
    )


def test_the_pallas_twin_can_ignore_an_index_in_the_vocabulary(interpreted):
    assert_close(interpreted(small_kernels.compare_pallas_cross_entropy, ignore_index=2))


def test_the_pallas_twin_gives_nan_for_an_unknown_target_and_zeros_for_an_ignored_one(interpreted):
    loss, gradient = interpreted(small_kernels.compute_pallas_row, 8)
    assert np.isnan(loss)
    assert np.isnan(gradient).all()
    loss, gradient = interpreted(small_kernels.compute_pallas_row, -100)
    assert loss == 0
    assert not gradient.any()


@pytest.mark.parametrize(
    ("name", "mode"),
    [("add_sum", "out_of_place"), ("permute_rows", "hidden"), ("multiply_range", "barrier"), ("pallas", "trivial")],
)
def test_a_meaningless_mode_is_refused_by_name(interpreted, name, mode):
    with pytest.raises(ValueError, match=mode):
        interpreted(small_kernels.refuse, name, mode)
