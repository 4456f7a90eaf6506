"""Finds the verdicts that the numbers contradict."""

from collections.abc import Mapping

from ligerdiag.model.findings import Attribution, DeviceOutput, OutputNumbers

RIGHT_VERDICTS = frozenset({"fresh", "latent"})
WRONG_VERDICTS = frozenset({"stale", "clobbered"})
WRONG_NUMBERS = frozenset({"stale", "partly_stale", "neither", "lossy"})
NEARNESS = 0.1
"""The error of a fresh output must be below this fraction of the distance between the right output and the stale one.

In bf16 these two may be near each other.
"""


def list_contradictions(verdicts: Mapping[str, str], numbers: Mapping[str, str], who: str) -> list[str]:
    """Returns a line for each miss and each false alarm; `numbers` are attributions, or `alike` if they decide nothing."""
    wrong: list[str] = []
    for name, attribution in numbers.items():
        verdict = verdicts.get(name, "missing")
        is_missed = verdict in RIGHT_VERDICTS and attribution in WRONG_NUMBERS
        is_alarm = verdict in WRONG_VERDICTS and attribution == "fresh"
        if is_missed or is_alarm:
            wrong.append(f"{name}: static {verdict}, {who} {attribution}")
    return wrong


def is_alike(attribution: Attribution, numbers: OutputNumbers | DeviceOutput) -> bool:
    """Returns whether a fresh output and a stale one are too near each other for these numbers to distinguish them."""
    error = numbers.error if isinstance(numbers, OutputNumbers) else max(numbers.errors)
    is_far = numbers.distance > numbers.tolerance and error < numbers.distance * NEARNESS
    return attribution is Attribution.FRESH and not is_far
