"""The precision of a device, and what an error means there."""

from collections.abc import Mapping

from ligerdiag.outcomes import FAR, Attribution, DeviceOutput

DEVICE_TOLERANCE = 2e-2
"""Relative error in norm: TF32 keeps 11 bits (2**-12 = 2.4e-4 per operand), and a few products in a row and sums that
cancel leave up to some 1e-3 of it on an H200; hidden writes that are missed are off by 0.5 and more."""

BADNESS = (
    Attribution.FRESH,
    Attribution.UNDECIDED,
    Attribution.LOSSY,
    Attribution.PARTLY_STALE,
    Attribution.NEITHER,
    Attribution.STALE,
)
"""From good to bad: of several draws the worst counts."""


def judge_by_reference(errors: Mapping[str, tuple[float, ...]]) -> dict[str, DeviceOutput]:
    """Judges by the errors against the reference alone: they cannot tell stale from otherwise wrong."""
    return {
        name: DeviceOutput(
            errors=found,
            attribution=max([_judge_error(error) for error in found], key=BADNESS.index),
            tolerance=DEVICE_TOLERANCE,
        )
        for name, found in errors.items()
    }


def _judge_error(error: float) -> Attribution:
    if error <= DEVICE_TOLERANCE:
        return Attribution.FRESH
    return Attribution.LOSSY if error < FAR else Attribution.NEITHER
