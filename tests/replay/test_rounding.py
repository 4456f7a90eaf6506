"""The effect of roundings on an output in program order, measured if the dtypes do not explain an error."""

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ligerdiag import api
from ligerdiag.model.findings import FAR, Attribution, OutputNumbers
from ligerdiag.replay.runs.program import run_program
from ligerdiag.replay.runs.rounding import demote_imprecise, judge_rounded, measure_rounding, needs_rounding
from tests.replay.by_hand import Doubling, parse
from tests.replay.programs import cancelling, centred

SUM = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
NUMBERS = OutputNumbers(attribution=Attribution.NEITHER, error=2e-4, stale_error=2e-4, distance=0.0, tolerance=1e-4)


def measure(body: str, *arguments: np.ndarray, tolerance: float = 1e-4) -> float:
    module, kernels = parse(body, SUM), Doubling()
    (intended,) = run_program(module, arguments, kernels)
    found = measure_rounding(module, arguments, kernels, {"out": intended}, {"out": tolerance}, devices=1)
    return found["out"]


def test_an_output_that_loses_digits_is_not_called_wrong(shared_cache: Path) -> None:
    """XLA sums the same terms in another order; suffix sums are the difference of two large sums."""
    options = api.CheckOptions(selectors=(cancelling.__file__,), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert not case.disagreements
    assert case.replay is not None
    numbers = case.replay.outputs["suffixes"]
    assert numbers.error > 1e-3  # more than f32 rounding explains
    assert numbers.attribution is Attribution.UNDECIDED
    assert "the rounding errors of `suffixes` add up" in case.replay.reason
    assert case.replay.outputs["total"].attribution is Attribution.FRESH


def test_the_rounding_of_a_cancelling_sum_is_measured() -> None:
    """1e4 terms of 1, minus 9999, leave 1; a rounding of the sum is at most about 1e-3 of that."""
    body = """{
  x = f32[10000] parameter(0)
  zero = f32[] constant(0)
  sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  less = f32[] constant(9999)
  ROOT out = f32[] subtract(sum, less)
}"""
    found = measure(body, np.ones(10_000, np.float32), tolerance=1e-7)
    rounding = 100 * 2.0**-24 * 1e4
    assert 0.01 * rounding < found <= 8 * rounding


def test_two_constants_that_xla_folds_shift_every_term_of_a_sum_alike() -> None:
    """bf16: 0.62 * 1.44 rounds to 0.8946, 0.6211 * 1.4375 is 0.8928. Over 65536 terms the errors do not average out."""
    body = """{
  x = bf16[65536] parameter(0)
  a = bf16[] constant(0.62)
  as = bf16[65536] broadcast(a), dimensions={}
  once = bf16[65536] multiply(x, as)
  b = bf16[] constant(1.44)
  bs = bf16[65536] broadcast(b), dimensions={}
  twice = bf16[65536] multiply(once, bs)
  wide = f32[65536] convert(twice)
  zero = f32[] constant(0)
  ROOT out = f32[] reduce(wide, zero), dimensions={0}, to_apply=add
}"""
    found = measure(body, np.random.default_rng(0).uniform(1, 2, 65536).astype(ml_dtypes.bfloat16), tolerance=1e-7)
    assert found >= 8 * 2.0**-9  # independent roundings to nearest would add up to 2**-9 / 256


def test_scaled_narrow_floats_round_in_one_direction() -> None:
    """e4m3: 1.03 times a number rounds to the number; XLA skips this rounding. 65536 such errors do not average out."""
    body = """{
  x = f8e4m3fn[65536] parameter(0)
  wide = f32[65536] convert(x)
  a = f32[] constant(1.03)
  as = f32[65536] broadcast(a), dimensions={}
  scaled = f32[65536] multiply(wide, as)
  kept = f32[65536] opt-barrier(scaled)
  narrow = f8e4m3fn[65536] convert(kept)
  back = f32[65536] convert(narrow)
  zero = f32[] constant(0)
  ROOT out = f32[] reduce(back, zero), dimensions={0}, to_apply=add
}"""
    found = measure(body, np.random.default_rng(0).uniform(1, 2, 65536).astype(ml_dtypes.float8_e4m3fn), tolerance=1e-7)
    assert found >= 8 * 0.03  # independent roundings to nearest would add up to 2**-4 / 256


@pytest.mark.parametrize("operation", ["add(x, x)", "multiply(x, x)", "exponential(x)", "negate(x)", "maximum(x, x)"])
def test_a_well_conditioned_program_keeps_its_tolerance(operation: str) -> None:
    body = f"{{\n x = f32[64] parameter(0)\n ROOT out = f32[64] {operation}\n}}"
    assert measure(body, np.linspace(0.5, 2, 64, dtype=np.float32)) == 1e-4


def test_operations_that_only_move_or_compare_are_exact() -> None:
    """A maximum equals one of its operands bit for bit, so a search for it finds one."""
    body = """{
  x = f32[64] parameter(0)
  same = pred[64] compare(x, x), direction=EQ
  zero = f32[] constant(0)
  zeros = f32[64] broadcast(zero), dimensions={}
  ROOT out = f32[64] select(same, x, zeros)
}"""
    assert measure(body, np.linspace(0.5, 2, 64, dtype=np.float32), tolerance=0.0) == 0.0


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({}, True),
        ({"attribution": Attribution.LOSSY}, True),
        ({"attribution": Attribution.FRESH, "error": 5e-5}, False),
        ({"attribution": Attribution.STALE}, False),
        ({"distance": 2e-4}, True),
        ({"distance": float("nan")}, True),
        ({"attribution": Attribution.LOSSY, "distance": 2e-4}, False),
        ({"attribution": Attribution.PARTLY_STALE, "distance": 2e-4}, False),
        ({"error": 0.7}, True),
        ({"error": float("nan")}, False),
    ],
)
def test_only_an_error_that_the_tolerance_does_not_explain_is_measured(change: dict[str, object], needed: bool) -> None:
    assert needs_rounding(replace(NUMBERS, **change)) is needed  # type: ignore[arg-type]


def test_if_no_digit_is_left_every_result_is_undecided() -> None:
    body = """{
  x = f32[64] parameter(0)
  square = f32[64] multiply(x, x)
  other = f32[64] add(square, x)
  back = f32[64] subtract(other, x)
  ROOT out = f32[64] subtract(back, square)
}"""
    found = measure(body, np.linspace(0.5, 2, 64, dtype=np.float32))
    assert found > FAR
    lost = replace(NUMBERS, attribution=Attribution.FRESH, error=0.7, tolerance=found)
    assert demote_imprecise(lost, 1e-2).attribution is Attribution.UNDECIDED


def test_a_sum_that_is_zero_up_to_rounding_is_undecided_although_its_stale_value_is_another(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(centred.__file__,), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.replay is not None
    numbers = case.replay.outputs["sum"]
    assert numbers.distance > 100 * numbers.error > 100 * 1e-3  # more than f32 rounding of another value explains
    assert numbers.attribution is Attribution.UNDECIDED
    assert "the rounding errors of `sum` add up" in case.replay.reason
    assert case.replay.outputs["squares"].attribution is Attribution.FRESH
    assert not case.disagreements


@pytest.mark.parametrize("share", [1e-3, 1e-4, 1e-5])
def test_a_sum_that_is_zero_up_to_rounding_is_wrong_if_a_small_share_of_its_terms_is(share: float) -> None:
    """share: the error, as a share of the sum of the absolute values of the terms."""
    body = """{
  x = f32[256] parameter(0)
  y = f32[256] parameter(1)
  terms = f32[256] multiply(x, y)
  zero = f32[] constant(0)
  ROOT out = f32[] reduce(terms, zero), dimensions={0}, to_apply=add
}"""
    x = np.linspace(0.5, 2, 256, dtype=np.float32)
    y = np.where(np.arange(256) % 2, -1, 1).astype(np.float32) / x
    total = abs(float((x * y).sum())) or float(np.finfo(np.float32).eps)
    found = measure(body, x, y)
    wrong = replace(NUMBERS, error=share * 256 / total, distance=1e9)
    assert judge_rounded(wrong, replace(wrong, tolerance=found), 1e-4) is wrong


def test_an_output_that_a_hidden_write_changes_is_undecided_only_if_roundings_reach_its_error_and_its_value() -> None:
    numbers = replace(NUMBERS, distance=0.3, stale_error=0.1, error=0.2)
    enough, narrow = (replace(numbers, tolerance=one, attribution=Attribution.FRESH) for one in (1.0, 0.99))
    assert judge_rounded(replace(numbers, error=1.1), enough, 1e-4).attribution is Attribution.NEITHER
    assert judge_rounded(numbers, enough, 1e-4).attribution is Attribution.UNDECIDED  # never fresh
    assert judge_rounded(numbers, replace(narrow, attribution=Attribution.UNDECIDED), 1e-4) is numbers


def test_a_wide_tolerance_calls_nothing_fresh() -> None:
    fresh = replace(NUMBERS, attribution=Attribution.FRESH, tolerance=5e-3)
    assert demote_imprecise(fresh, 1e-4).attribution is Attribution.FRESH
    assert demote_imprecise(replace(fresh, tolerance=2e-2), 1e-4).attribution is Attribution.UNDECIDED
    assert demote_imprecise(replace(NUMBERS, tolerance=2e-2), 1e-4).attribution is Attribution.NEITHER
