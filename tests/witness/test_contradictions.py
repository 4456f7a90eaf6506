"""Misses and false alarms are named; what numbers cannot tell is neither."""

import pytest

from tests.witness.contradictions import hold_against


@pytest.mark.parametrize(
    ("verdict", "attribution", "is_wrong"),
    [
        ("fresh", "fresh", False),
        ("fresh", "stale", True),
        ("latent", "neither", True),
        ("latent", "lossy", True),
        ("stale", "fresh", True),
        ("clobbered", "fresh", True),
        ("stale", "alike", False),
        ("stale", "partly_stale", False),
        ("unknown", "stale", False),
        ("fresh", "undecided", False),
    ],
)
def test_a_verdict_and_its_numbers(verdict: str, attribution: str, is_wrong: bool) -> None:
    assert bool(hold_against({"loss": verdict}, {"loss": attribution}, "eager")) is is_wrong
