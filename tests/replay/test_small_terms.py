"""A sum with one small stale term is not taken for a rounded one."""

from pathlib import Path

import numpy as np

from ligerdiag import api
from ligerdiag.model.findings import Attribution
from ligerdiag.replay.runs.rounding import is_overwritten

CASE = Path(__file__).parents[1] / "fuzz" / "once_missed.py"

INTENDED = np.linspace(1, 2, 64, dtype=np.float32)
STALE = INTENDED + np.float32(3)


def test_a_small_stale_term_is_not_taken_for_rounding(shared_cache: Path) -> None:
    """It is one percent of an output whose other term is right, and from a kernel, too."""
    options = api.CheckOptions(selectors=(f"{CASE}::add_small_term",), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.replay is not None
    numbers = case.replay.outputs["both"]
    assert 10 * numbers.tolerance < numbers.error < 0.1
    assert numbers.attribution is Attribution.NEITHER


def test_a_difference_comes_from_a_hidden_write_if_the_isolated_schedule_is_exact() -> None:
    actual = INTENDED * np.float32(1.01)
    assert is_overwritten((actual, INTENDED), (STALE * np.float32(1 + 1e-6), STALE), tolerance=1e-4)


def test_a_difference_as_large_as_the_roundings_is_rounding() -> None:
    actual = INTENDED * np.float32(1.01)
    assert not is_overwritten((actual, INTENDED), (STALE + np.float32(2e-3), STALE), tolerance=1e-2)


def test_an_isolated_schedule_with_other_results_proves_nothing() -> None:
    actual = INTENDED * np.float32(1.01)
    assert not is_overwritten((actual, INTENDED), (STALE * np.float32(1.001), STALE), tolerance=1e-4)
