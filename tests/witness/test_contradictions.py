"""Misses and false alarms are contradictions; an output that the numbers cannot decide is neither."""

import pytest

from tests.witness.contradictions import list_contradictions


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
def test_only_misses_and_false_alarms_are_contradictions(verdict: str, attribution: str, is_wrong: bool) -> None:
    assert bool(list_contradictions({"loss": verdict}, {"loss": attribution}, "eager")) is is_wrong
