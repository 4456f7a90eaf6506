"""Several draws judge an output: its error relative to the effect of roundings."""

from math import inf, nan

import pytest

from tools.fuzz.more_draws import Word, compute_ratio, judge_ratios


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ((0.0, 1.9), Word.RIGHT),
        ((0.0, 0.1, 8.1), Word.WRONG),  # one draw reveals it
        ((0.0, inf), Word.WRONG),
        ((0.1, 3.0), Word.ALIKE),
        ((0.1, nan), Word.ALIKE),
        ((nan, 20.0), Word.WRONG),
    ],
)
def test_one_draw_shows_a_wrong_output_but_only_all_draws_a_right_one(ratios: tuple[float, ...], word: Word) -> None:
    assert judge_ratios(ratios) is word


def test_an_error_is_relative_to_the_effect_of_roundings() -> None:
    assert compute_ratio(1e-3, (1e-4, 2e-4), is_finite=True) == pytest.approx(5)
    assert compute_ratio(0.0, (), is_finite=True) == 0
    assert compute_ratio(1e-9, (0.0, 0.0), is_finite=True) < 1  # no finer than an f32
    assert compute_ratio(nan, (1e-4,), is_finite=True) == inf
    assert judge_ratios([compute_ratio(nan, (1e-4,), is_finite=False)]) is Word.ALIKE
    assert judge_ratios([compute_ratio(1e-3, (1e-4, inf), is_finite=True)]) is Word.ALIKE
