"""Attribution: an example of each, and properties that hold for any numbers."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import Attribution, WorstElement
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.runs import attribution as compare
from ligerdiag.replay.runs.attribution import compare_output, compute_error, compute_tolerance

TOLERANCE = 1e-4


def draw(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


INTENDED, STALE = draw(1, 64, 48), draw(2, 64, 48)


def attribute(actual: Array, intended: Array = INTENDED, stale: Array = STALE, tolerance: float = TOLERANCE) -> str:
    return compare_output(actual, intended, stale, tolerance=tolerance).attribution


def test_rounding_is_fresh() -> None:
    assert attribute(INTENDED * np.float32(1 + 1e-6)) == Attribution.FRESH


def test_an_output_that_no_write_reaches_is_fresh_and_its_distance_is_zero() -> None:
    numbers = compare_output(INTENDED, INTENDED, INTENDED, tolerance=TOLERANCE)
    assert (numbers.attribution, numbers.error, numbers.distance) == (Attribution.FRESH, 0, 0)


def test_the_stale_prediction_with_rounding_is_stale() -> None:
    numbers = compare_output(STALE * np.float32(1 + 1e-6), INTENDED, STALE, tolerance=TOLERANCE)
    assert numbers.attribution == Attribution.STALE
    assert numbers.stale_error < 1e-5
    # two independent normal arrays are sqrt(2) apart; a sample of 3072 shows it to some percent
    assert numbers.error == pytest.approx(math.sqrt(2), rel=0.1)
    assert numbers.error == pytest.approx(numbers.distance, rel=1e-5)


def test_stale_rows_among_fresh_ones_are_partly_stale_and_counted() -> None:
    actual = INTENDED.copy()
    actual[5:9] = STALE[5:9]
    numbers = compare_output(actual, INTENDED, STALE, tolerance=TOLERANCE, rows=True)
    assert numbers.attribution == Attribution.PARTLY_STALE
    assert (numbers.rows_fresh, numbers.rows_stale, numbers.rows) == (60, 4, 64)


def test_rows_of_very_different_size_are_each_measured_against_their_own_norm() -> None:
    scale = np.logspace(0, 3, 64, dtype=np.float32)[:, None]
    intended, stale = INTENDED * scale, STALE * scale
    actual = intended.copy()
    actual[10] = stale[10]
    numbers = compare_output(actual, intended, stale, tolerance=TOLERANCE, rows=True)
    assert (numbers.attribution, numbers.rows_stale) == (Attribution.PARTLY_STALE, 1)


def test_rows_of_rounding_noise_do_not_count_as_different() -> None:
    intended, stale = INTENDED.copy(), STALE.copy()
    intended[:8] = stale[:8] = 0
    actual = intended.copy()
    actual[:8] = draw(3, 8, 48) * 1e-9
    actual[20] = stale[20]
    numbers = compare_output(actual, intended, stale, tolerance=TOLERANCE, rows=True)
    assert (numbers.attribution, numbers.rows_fresh) == (Attribution.PARTLY_STALE, 63)


def test_a_row_that_is_neither_is_not_partly_stale() -> None:
    actual = INTENDED.copy()
    actual[5:40] = STALE[5:40]
    actual[50] = draw(4, 48)
    assert attribute(actual) == Attribution.NEITHER


def test_stale_columns_are_partly_stale() -> None:
    actual = INTENDED.copy()
    actual[:, :12] = STALE[:, :12]
    numbers = compare_output(actual, INTENDED, STALE, tolerance=TOLERANCE, rows=True)
    assert (numbers.attribution, numbers.rows_fresh, numbers.rows_stale) == (Attribution.PARTLY_STALE, 0, 0)


def test_noise_about_as_large_as_the_distance_is_not_partly_stale() -> None:
    ones = np.ones((64, 48))
    # each element is within 0.6 tolerances of one prediction, as it would be of any two that are so close
    actual = ones + TOLERANCE * np.where(draw(5, 64, 48) > 0, 0.6, 1.8)
    assert attribute(actual, ones, ones * (1 + 2.4 * TOLERANCE)) == Attribution.NEITHER


def test_rows_that_are_all_stale_but_not_as_a_whole_are_not_partly_stale() -> None:
    stale = np.zeros((4, 4))
    stale[:, 0] = [100, 1, 1, 1]
    actual = stale.copy()
    # the floor of a row is half of the large row's norm: all rows together are 1.3 tolerances off
    actual[:, 1] = np.array([99, 49, 49, 49]) * TOLERANCE
    assert attribute(actual, -stale, stale) == Attribution.NEITHER


def test_a_result_half_way_between_both_is_neither() -> None:
    assert attribute((INTENDED + STALE) / 2) == Attribution.NEITHER


def test_a_bias_gradient_that_lost_a_quarter_while_stale_is_far_away_is_lossy() -> None:
    intended, noise = draw(6, 50304) * 1e-6, draw(7, 50304) * 2.5e-7
    stale = draw(8, 50304) * 4e-2
    numbers = compare_output(intended + noise, intended, stale, tolerance=TOLERANCE)
    assert numbers.attribution == Attribution.LOSSY
    # the noise has a quarter of the norm; 50304 draws agree to a percent
    assert numbers.error == pytest.approx(0.25, rel=0.02)
    assert numbers.distance == pytest.approx(4e4, rel=0.02)


def test_half_a_percent_off_with_stale_at_distance_one_is_lossy() -> None:
    assert attribute(INTENDED + draw(9, 64, 48) * np.float32(0.005)) == Attribution.LOSSY


def test_another_result_is_neither() -> None:
    assert attribute(draw(10, 64, 48)) == Attribution.NEITHER


def test_an_error_beyond_rounding_where_both_predictions_agree_is_neither() -> None:
    assert attribute(INTENDED * np.float32(1.01), stale=INTENDED) == Attribution.NEITHER


def test_predictions_closer_than_the_tolerance_leave_an_output_undecided() -> None:
    stale = INTENDED * np.float32(1 + 0.9e-4)
    assert attribute(INTENDED * np.float32(1 + 1.2e-4), stale=stale) == Attribution.UNDECIDED


def test_an_intended_nan_is_undecided() -> None:
    intended = INTENDED.copy()
    intended[3, 3] = np.nan
    numbers = compare_output(intended, intended, STALE, tolerance=TOLERANCE)
    assert numbers.attribution == Attribution.UNDECIDED
    assert math.isnan(numbers.error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_equal_nothing_not_even_the_stale_prediction(value: float) -> None:
    stale = STALE.copy()
    stale[3, 3] = value
    numbers = compare_output(stale, INTENDED, stale, tolerance=TOLERANCE)
    assert numbers.attribution == Attribution.NEITHER
    assert math.isnan(numbers.error)


def test_a_finite_result_is_fresh_against_a_stale_prediction_of_nan() -> None:
    numbers = compare_output(INTENDED, INTENDED, STALE * np.float32(np.nan), tolerance=TOLERANCE)
    assert numbers.attribution == Attribution.FRESH
    assert math.isnan(numbers.distance)


def test_intended_zeros_are_measured_by_the_stale_norm() -> None:
    zeros = np.zeros_like(INTENDED)
    numbers = compare_output(STALE * np.float32(1e-3), zeros, STALE, tolerance=TOLERANCE)
    assert numbers.error == pytest.approx(1e-3, rel=1e-5)
    assert attribute(STALE * np.float32(1e-6), zeros) == Attribution.FRESH
    assert attribute(STALE, zeros) == Attribution.STALE


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_one_integer_that_differs_is_not_fresh_whatever_the_tolerance(dtype: type) -> None:
    intended = np.arange(100).astype(dtype)
    actual = intended.copy()
    actual[7] += 1
    numbers = compare_output(actual, intended, intended, tolerance=0.5)
    assert (numbers.attribution, numbers.error, numbers.tolerance) == (Attribution.NEITHER, 0.01, 0)
    assert attribute(actual, intended, actual, tolerance=0.5) == Attribution.STALE


def test_booleans_are_equal_or_not() -> None:
    intended, stale = np.array([True, True, False, True]), np.array([False, True, True, False])
    assert attribute(intended, intended, stale) == Attribution.FRESH
    assert attribute(stale, intended, stale) == Attribution.STALE
    assert attribute(np.array([False, True, False, True]), intended, stale) == Attribution.PARTLY_STALE
    assert attribute(~intended, intended, stale) == Attribution.NEITHER


def test_an_empty_output_is_fresh() -> None:
    empty = np.zeros((0, 4), np.float32)
    assert attribute(empty, empty, empty) == Attribution.FRESH
    hollow = np.zeros((4, 0), np.float32)
    assert compare_output(hollow, hollow, hollow, tolerance=0, rows=True).rows_fresh == 4


def test_a_scalar_is_one_row() -> None:
    intended, stale = np.array(2.0, np.float32), np.array(3.0, np.float32)
    numbers = compare_output(stale, intended, stale, tolerance=TOLERANCE, rows=True)
    assert (numbers.attribution, numbers.rows_stale, numbers.rows) == (Attribution.STALE, 1, 1)
    assert numbers.error == 0.5


def test_complex_numbers_and_bfloat16_are_compared() -> None:
    values = INTENDED.astype(np.complex64) * np.complex64(1 + 2j)
    assert attribute(values, values, values.conj()) == Attribution.FRESH
    assert attribute(values.conj(), values, values.conj()) == Attribution.STALE
    halves = INTENDED.astype(ml_dtypes.bfloat16)
    assert attribute(halves, halves, STALE.astype(ml_dtypes.bfloat16)) == Attribution.FRESH


def test_arrays_of_different_shapes_are_an_error() -> None:
    with pytest.raises(ArtifactError, match="expected arrays of one shape"):
        attribute(INTENDED[:-1])


def test_f64_at_the_ends_of_its_range_is_compared() -> None:
    for scale in (1e300, 1e-300):
        intended, stale = INTENDED.astype(np.float64) * scale, STALE.astype(np.float64) * scale
        numbers = compare_output(stale, intended, stale, tolerance=TOLERANCE)
        assert numbers.attribution == Attribution.STALE
        assert numbers.error == pytest.approx(math.sqrt(2), rel=0.1)


@pytest.mark.parametrize("shape", [(40, 7), (3, 500), (1, 2000), (2000,)])
def test_blocks_of_any_size_give_the_same_numbers(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    intended, stale = draw(1, *shape), draw(2, *shape)
    actual = intended.copy()
    actual[: len(actual) // 3] = stale[: len(actual) // 3]
    whole = compare_output(actual, intended, stale, tolerance=TOLERANCE, rows=True)
    monkeypatch.setattr(compare, "BLOCK", 64)
    split = compare_output(actual, intended, stale, tolerance=TOLERANCE, rows=True)
    assert split.attribution == whole.attribution
    assert (split.rows_fresh, split.rows_stale) == (whole.rows_fresh, whole.rows_stale)
    # f64 sums of f32 squares in another order
    assert split.error == pytest.approx(whole.error, rel=1e-12)


def test_a_large_array_needs_no_copy_of_itself() -> None:
    large = np.ones(8_000_000, np.float32)
    large[0] = 2
    tracemalloc.start()
    try:
        compare_output(large, large, large, tolerance=TOLERANCE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # the array has 32 MB, and 64 MB in f64
    assert peak < 30_000_000


floats = arrays(np.float32, array_shapes(max_dims=2, max_side=6), elements=st.floats(-1e3, 1e3, width=32))


@given(floats, st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-4, 2e-2]), st.floats(0, 0.1))
def test_fresh_if_and_only_if_within_tolerance(intended: Array, seed: int, tolerance: float, noise: float) -> None:
    generator = np.random.default_rng(seed)
    stale = generator.standard_normal(intended.shape).astype(np.float32)
    actual = intended + (noise * generator.standard_normal(intended.shape)).astype(np.float32)
    numbers = compare_output(actual, intended, stale, tolerance=tolerance, rows=True)
    norm = np.linalg.norm(intended.astype(np.float64)) or np.linalg.norm(stale.astype(np.float64))
    # f64 against f64, sums in another order
    assert numbers.error == pytest.approx(
        np.linalg.norm(actual.astype(np.float64) - intended) / norm, rel=1e-9, abs=1e-300
    )
    assert (numbers.attribution == Attribution.FRESH) == (numbers.error <= tolerance)
    assert numbers.rows_fresh + numbers.rows_stale <= numbers.rows == len(intended)


@given(floats, st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(-30, 30))
def test_a_common_factor_changes_nothing(intended: Array, seed: int, mix: float, exponent: int) -> None:
    generator = np.random.default_rng(seed)
    intended = intended.astype(np.float64)
    stale = generator.standard_normal(intended.shape)
    actual = np.where(generator.random(intended.shape) < mix, stale, intended)
    factor = 2.0**exponent
    one = compare_output(actual, intended, stale, tolerance=TOLERANCE, rows=True)
    other = compare_output(actual * factor, intended * factor, stale * factor, tolerance=TOLERANCE, rows=True)
    assert replace(one, worst=None) == replace(other, worst=None)


@given(floats, st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_nan_is_never_equal(values: Array, bad: float, data: st.DataObject) -> None:
    actual = values.copy()
    actual[data.draw(st.tuples(*[st.integers(0, size - 1) for size in values.shape]))] = bad
    assert attribute(actual, values, values) == Attribution.NEITHER
    assert attribute(actual, values, actual) == Attribution.NEITHER
    assert attribute(actual, actual, actual) == Attribution.UNDECIDED


def test_the_narrowest_floating_point_dtype_sets_the_tolerance() -> None:
    f32, f64, s32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
    bf16, f16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
    assert compute_tolerance([f32, s32]) == 1e-4
    assert compute_tolerance([f64]) == 1e-12
    assert compute_tolerance([f32, f16]) == 4e-3
    assert compute_tolerance([f16, bf16, f32]) == 2e-2
    assert compute_tolerance([f32, np.dtype(ml_dtypes.float8_e4m3fn)]) == 0.3
    assert compute_tolerance([f32, np.dtype(ml_dtypes.float8_e5m2)]) == 0.5
    assert compute_tolerance([np.dtype(np.complex64)]) == 1e-4
    assert compute_tolerance([s32, np.dtype(np.bool_)]) == 0
    assert compute_tolerance([]) == 0


def test_truncation_of_a_few_bf16_values_stays_within_the_tolerance() -> None:
    values = np.abs(draw(11, 1 << 16))
    truncated = values
    for _ in range(4):
        truncated = ((truncated * np.float32(1.01)).view(np.uint32) & 0xFFFF0000).view(np.float32)
    exact = values.astype(np.float64) * np.float64(np.float32(1.01)) ** 4
    error = np.linalg.norm(truncated - exact) / np.linalg.norm(exact)
    # one truncation would be about 3e-3; less would mean that this test measures nothing
    assert 5e-3 < error < compute_tolerance([np.dtype(ml_dtypes.bfloat16)])


def test_the_error_of_two_arrays_is_relative_to_the_second() -> None:
    assert compute_error(np.array([3.0, 4.0]), np.array([0.0, 4.0])) == 0.75
    assert compute_error(np.array([3.0, 4.0]), np.zeros(2)) == 5
    assert compute_error(np.array([3, 4]), np.array([0, 4])) == 0.5
    assert math.isnan(compute_error(np.array([np.nan]), np.array([1.0])))
    assert math.isnan(compute_error(np.array([1.0]), np.array([np.inf])))


@pytest.mark.parametrize(
    ("actual", "intended", "stale", "same"),
    [
        ([np.nan, 1], [2, 1], [np.nan, 1], True),
        ([np.nan, 3], [2, 1], [np.nan, 1], True),
        ([np.nan, 1], [2, 1], [1, np.nan], False),
        ([np.nan, 1], [2, 1], [np.nan, np.nan], False),
        ([np.nan, 1], [2, 1], [2, 1], False),
        ([2, 1], [2, 1], [np.nan, 1], False),
        ([np.inf, 1], [2, 1], [np.inf, 1], False),
        ([np.nan, 1], [np.nan, 1], [np.nan, 1], False),
        ([2, 1], [2, 1], [2, 1], False),
    ],
)
def test_nan_is_as_in_the_stale_numbers_if_it_is_in_the_same_elements(
    actual: list[float], intended: list[float], stale: list[float], same: bool
) -> None:
    numbers = compare_output(*(np.array(one, np.float32) for one in (actual, intended, stale)), tolerance=TOLERANCE)
    assert numbers.nan_as_stale is same


def test_nan_in_another_block_is_compared_as_well() -> None:
    intended = np.ones(2 * compare.BLOCK, np.float32)
    actual, stale = intended.copy(), intended.copy()
    actual[0] = stale[0] = np.nan
    assert compare_output(actual, intended, stale, tolerance=TOLERANCE).nan_as_stale
    stale[-1] = np.nan
    assert not compare_output(actual, intended, stale, tolerance=TOLERANCE).nan_as_stale


@pytest.mark.parametrize("wrong", [-3.0, np.nan, np.inf])
def test_the_element_that_differs_most_is_named(wrong: float) -> None:
    intended = np.zeros((2, compare.BLOCK), ml_dtypes.bfloat16)
    actual = intended.copy()
    actual[0, 5], actual[1, 7] = 2.0, wrong
    worst = compare_output(actual, intended, intended, tolerance=TOLERANCE).worst
    assert worst is not None
    assert replace(worst, actual=0.0) == WorstElement(
        dtype="bfloat16", shape=(2, compare.BLOCK), index=(1, 7), intended=0.0, actual=0.0
    )
    np.testing.assert_equal(worst.actual, wrong)


@pytest.mark.parametrize(
    ("actual", "intended"), [([1.0], [1.0]), ([1.0], [np.nan]), ([1j], [2j]), (np.zeros(0), np.zeros(0))]
)
def test_right_undecided_and_complex_outputs_have_no_worst_element(actual: Any, intended: Any) -> None:
    actual, intended = np.asarray(actual), np.asarray(intended)
    assert compare_output(actual, intended, intended, tolerance=TOLERANCE).worst is None


def test_a_scalar_and_a_wrong_integer_have_a_worst_element() -> None:
    one = compare_output(np.int32(3), np.int32(4), np.int32(5), tolerance=0.0).worst
    assert one == WorstElement(dtype="int32", shape=(), index=(), intended=4.0, actual=3.0)
