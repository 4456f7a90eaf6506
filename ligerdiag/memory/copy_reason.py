"""The reason of a copy, as the modules that explain copies exchange it."""

from dataclasses import dataclass

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.memory import CopyCause


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReason:
    """The cause of a copy."""

    cause: CopyCause
    why: str
    """One clause."""
    subject: object
    """Equal for copies that have one cause in common: a loop, a conditional, an argument, a value."""
    blamed: tuple[HloInstruction, ...] = ()
    """The instructions whose source line is responsible, the first that has one."""
    is_needed: bool = False
    is_round_trip: bool = False


UNEXPLAINED = CopyReason(
    cause=CopyCause.UNKNOWN,
    why="neither the schedule nor the buffer assignment shows a reason",
    subject="unknown",
)


def describe_collected(array: str, result: str) -> str:
    """Returns the clause about a scan that takes an array apart and collects the new one."""
    return (
        f"a loop reads {array} part by part, and collects {result} in an array of its own, which XLA then copies back"
    )
