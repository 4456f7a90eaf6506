"""Which verdicts the numbers contradict."""

from collections.abc import Mapping

RIGHT_VERDICTS = frozenset({"fresh", "latent"})
WRONG_VERDICTS = frozenset({"stale", "clobbered"})
WRONG_NUMBERS = frozenset({"stale", "partly_stale", "neither", "lossy"})


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
