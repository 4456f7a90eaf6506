"""Which verdicts the numbers contradict."""

from collections.abc import Mapping

from ligerdiag.model.findings import Attribution, DeviceOutput, OutputNumbers

RIGHT_VERDICTS = frozenset({"fresh", "latent"})
WRONG_VERDICTS = frozenset({"stale", "clobbered"})
WRONG_NUMBERS = frozenset({"stale", "partly_stale", "neither", "lossy"})
TELLING = 0.1
"""How much nearer to the right output than a stale one a fresh one must be; in bf16, what is stale may be near, too."""


def hold_against(verdicts: Mapping[str, str], numbers: Mapping[str, str], who: str) -> list[str]:
    """A line for each output that is missed or falsely alarmed; numbers: attributions, or `alike` where they cannot tell."""
    wrong: list[str] = []
    for name, attribution in numbers.items():
        verdict = verdicts.get(name, "missing")
        is_missed = verdict in RIGHT_VERDICTS and attribution in WRONG_NUMBERS
        is_alarm = verdict in WRONG_VERDICTS and attribution == "fresh"
        if is_missed or is_alarm:
            wrong.append(f"{name}: static {verdict}, {who} {attribution}")
    return wrong


def is_alike(attribution: Attribution, numbers: OutputNumbers | DeviceOutput) -> bool:
    """Whether a fresh output and a stale one are too near each other for these numbers to say which it is."""
    error = numbers.error if isinstance(numbers, OutputNumbers) else max(numbers.errors)
    is_far = numbers.distance > numbers.tolerance and error < numbers.distance * TELLING
    return attribution is Attribution.FRESH and not is_far
