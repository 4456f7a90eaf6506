"""How a call uses the bytes of one buffer, beyond whether it reads or writes them.

Every answer except UNKNOWN is proven: for all programs of the launch's grid, its scalars, and the size of the buffer.
It holds if the kernel ends, and if no pointer leaves the buffer that it was made from.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class ReadsBeforeWrite(Enum):
    """Whether a program may read an element that it has not written before: then the old content matters."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Coverage(Enum):
    """How much of the buffer is written when the call is over."""

    NONE = "none"
    """No element."""
    COMPLETE = "complete"
    """Every element, whatever the data."""
    PARTIAL = "partial"
    """Elements are written, and at least one is not, whatever the data."""
    UNKNOWN = "unknown"


class Neighbours(Enum):
    """Whether a program of the grid may read or write an element that another program writes."""

    DISJOINT = "disjoint"
    SHARED = "shared"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandUse:
    """The use of one operand or output, through its own pointer."""

    reads_before_write: ReadsBeforeWrite = ReadsBeforeWrite.UNKNOWN
    coverage: Coverage = Coverage.UNKNOWN
    neighbours: Neighbours = Neighbours.UNKNOWN
    reason: str = ""
    """The reason for UNKNOWN, one line; empty if nothing is UNKNOWN."""

    @property
    def is_unknown(self) -> bool:
        """Returns whether any part of it is UNKNOWN."""
        return (
            self.reads_before_write is ReadsBeforeWrite.UNKNOWN
            or self.coverage is Coverage.UNKNOWN
            or self.neighbours is Neighbours.UNKNOWN
        )


UNUSED = OperandUse(reads_before_write=ReadsBeforeWrite.NO, coverage=Coverage.NONE, neighbours=Neighbours.DISJOINT)
"""Of a buffer whose pointer the kernel is not given, or does not use."""


def join_uses(uses: Iterable[OperandUse]) -> OperandUse:
    """Returns what holds for any of the configurations; takes at least one.

    A configuration that reads old content, or shares bytes, counts for all; coverage must be the same in each.
    """
    found = tuple(uses)
    reads = {use.reads_before_write for use in found}
    coverages = {use.coverage for use in found}
    neighbours = {use.neighbours for use in found}
    joined = OperandUse(
        reads_before_write=next(
            kind for kind in (ReadsBeforeWrite.YES, ReadsBeforeWrite.UNKNOWN, ReadsBeforeWrite.NO) if kind in reads
        ),
        coverage=coverages.pop() if len(coverages) == 1 else Coverage.UNKNOWN,
        neighbours=next(
            kind for kind in (Neighbours.SHARED, Neighbours.UNKNOWN, Neighbours.DISJOINT) if kind in neighbours
        ),
        reason=next((use.reason for use in found if use.reason), ""),
    )
    if joined.is_unknown and not joined.reason and len(found) > 1:
        return OperandUse(
            reads_before_write=joined.reads_before_write,
            coverage=joined.coverage,
            neighbours=joined.neighbours,
            reason="the configurations that the launcher may choose differ in it",
        )
    return joined
