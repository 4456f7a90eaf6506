"""Defines the reason for a copy, as the modules that explain copies return it."""

from dataclasses import dataclass
from enum import Enum, auto

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.memory import CopyCause


class CopyForm(Enum):
    """The form of the user's code that causes a copy. Copies with one cause may need different remedies because their forms
    differ.
    """

    PLAIN = auto()
    COLLECTED = auto()
    """A scan takes an array apart into slices, and collects the new slices in another array."""
    OTHER_LAYOUT = auto()
    """XLA itself chooses another layout."""
    REPEATED_UPDATE = auto()
    """XLA computes an update again where its result is read."""
    ALIASED_ELSEWHERE = auto()
    """A call writes in place, but to the bytes of an operand that is not the loop's state."""
    RETURNED_ELSEWHERE = auto()
    """An output returns one donated argument unchanged, in the bytes of another one."""
    RETURNED_AFTER = auto()
    """An output returns a donated argument unchanged, and an earlier output has the argument's bytes."""
    NEEDS_BOTH = auto()
    """The reader of the old value depends on the new one, too, so it cannot run before the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReason:
    """The reason for a copy: its cause, one clause about it, and the instructions that are responsible."""

    cause: CopyCause
    why: str
    """One clause that states the cause, with names."""
    subject: object
    """The loop, conditional, argument or value that causes the copy; two copies with equal subjects have a common
    cause.
    """
    blamed: tuple[HloInstruction, ...] = ()
    """The instructions that may be responsible; reports show the source line of the first of them that has a line."""
    is_needed: bool = False
    is_round_trip: bool = False
    form: CopyForm = CopyForm.PLAIN


UNEXPLAINED = CopyReason(
    cause=CopyCause.UNKNOWN,
    why="neither the schedule nor the buffer assignment shows a reason",
    subject="unknown",
)


def describe_collected(array: str, result: str) -> str:
    """Returns a clause about a scan that reads an array part by part, and collects its results in a new array. array,
    result: phrases for the two arrays.
    """
    return (
        f"a loop reads {array} part by part, and collects {result} in an array of its own, which XLA then copies back"
    )
