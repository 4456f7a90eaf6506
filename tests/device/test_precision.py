"""Judgement by the errors against a case's reference, if there is no other comparison."""

from math import inf, nan

import pytest

from ligerdiag.device.device_jobs import BADNESS, DEVICE_TOLERANCE, judge_by_reference
from ligerdiag.model.findings import FAR, Attribution

FRESH, LOSSY, NEITHER = Attribution.FRESH, Attribution.LOSSY, Attribution.NEITHER


def judge(*errors: float) -> Attribution:
    return judge_by_reference({"y": errors})["y"].attribution


@pytest.mark.parametrize(
    ("error", "attribution"),
    [
        (0.0, FRESH),
        (DEVICE_TOLERANCE, FRESH),
        (1.001 * DEVICE_TOLERANCE, LOSSY),
        (0.999 * FAR, LOSSY),
        (FAR, NEITHER),
        (1e4, NEITHER),
        (inf, NEITHER),
        (nan, NEITHER),
    ],
)
def test_an_error_is_rounding_or_lost_precision_or_another_result(error: float, attribution: Attribution) -> None:
    assert judge(error) is attribution


@pytest.mark.parametrize(
    ("errors", "attribution"),
    [
        ((1e-6, 2e-6, 3e-6), FRESH),
        ((1e-6, 0.1, 1e-6), LOSSY),
        ((0.1, 1e-6, 2.0), NEITHER),
        ((nan, 1e-6), NEITHER),
        ((1e-6, nan), NEITHER),
        ((1e-6, inf, 0.1), NEITHER),
    ],
)
def test_the_worst_of_several_draws_counts(errors: tuple[float, ...], attribution: Attribution) -> None:
    assert judge(*errors) is attribution


def test_each_output_keeps_its_errors_and_is_judged_by_itself() -> None:
    errors = {"loss": (1e-6, 2e-6), "w": (1e-6, 3.0)}
    found = judge_by_reference(errors)
    assert list(found) == ["loss", "w"]
    assert {name: output.errors for name, output in found.items()} == errors
    assert [output.attribution for output in found.values()] == [FRESH, NEITHER]
    assert {output.tolerance for output in found.values()} == {DEVICE_TOLERANCE}
    assert {output.replay_error for output in found.values()} == {None}, "nothing was replayed"


def test_without_errors_there_are_no_outputs() -> None:
    assert judge_by_reference({}) == {}


def test_every_attribution_is_better_or_worse_than_every_other() -> None:
    assert sorted(BADNESS) == sorted(Attribution)
    assert BADNESS[0] is FRESH
