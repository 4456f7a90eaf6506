"""A sum in which one small term is stale is not taken for one that was rounded."""

from pathlib import Path

import numpy as np

from ligerdiag import api
from ligerdiag.model.findings import Attribution
from ligerdiag.replay.runs.rounding import is_overwritten

CASE = Path(__file__).parents[1] / "fuzz" / "once_missed.py"

INTENDED = np.linspace(1, 2, 64, dtype=np.float32)
STALE = INTENDED + np.float32(3)


def test_a_small_stale_term_is_no_rounding(shared_cache: Path) -> None:
    """It is one percent of an output whose other term is right, and from a kernel, too."""
    options = api.CheckOptions(selectors=(f"{CASE}::add_small_term",), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.replay is not None
    numbers = case.replay.outputs["both"]
    assert 10 * numbers.tolerance < numbers.error < 0.1
    assert numbers.attribution is Attribution.NEITHER


def test_a_difference_is_overwriting_where_the_schedule_is_exact_without_it() -> None:
    actual = INTENDED * np.float32(1.01)
    assert is_overwritten((actual, INTENDED), (STALE * np.float32(1 + 1e-6), STALE), tolerance=1e-4)


def test_a_difference_as_large_as_the_roundings_is_rounding() -> None:
    actual = INTENDED * np.float32(1.01)
    assert not is_overwritten((actual, INTENDED), (STALE + np.float32(2e-3), STALE), tolerance=1e-2)


def test_a_schedule_that_is_another_one_without_overwriting_says_nothing() -> None:
    actual = INTENDED * np.float32(1.01)
    assert not is_overwritten((actual, INTENDED), (STALE * np.float32(1.001), STALE), tolerance=1e-4)
