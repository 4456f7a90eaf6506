"""Renders sentences about XLA's autotuner: which of its choices come from a file, and which a GPU may make differently."""

from collections.abc import Sequence

from ligerdiag.model.tuning import TunedInstruction, TunedKind, Tuning
from ligerdiag.text import count_of, list_first

MAX_NAMED = 4
"""At most this many instructions are named; JSON has all of them."""
_DIGITS = 12


def describe_tuning(tuning: Tuning) -> str:
    """Returns a sentence about the choices of XLA's autotuner. Empty if the autotuner has nothing to choose."""
    if not tuning.file:
        return _describe_open(tuning.open)
    count = len(tuning.recorded) + len(tuning.open)
    if not tuning.counted:
        said = "XLA does not say which instructions have an entry there"
    elif not count:
        said = "the program has no instruction that is tuned"
    else:
        number = len(tuning.recorded)
        said = f"{number} of {count_of(count, 'tuned instruction')} {'has' if number == 1 else 'have'} an entry there"
    lacking = [one for one in tuning.open if one.kind is not TunedKind.FUSION]
    rest = f"; without an entry, and so compiled as without a GPU: {_name(lacking)}" if lacking else ""
    return f"by `{tuning.file}` ({count_of(tuning.entries, 'choice')}, sha256 {tuning.sha256[:_DIGITS]}): {said}{rest}"


def _describe_open(instructions: Sequence[TunedInstruction]) -> str:
    if not instructions:
        return ""
    return (
        f"a tuned machine may implement {count_of(len(instructions), 'instruction')} otherwise: {_name(instructions)}; see "
        "--autotune-results"
    )


def _name(instructions: Sequence[TunedInstruction]) -> str:
    return list_first([f"`{one.name}`" for one in instructions], MAX_NAMED)
