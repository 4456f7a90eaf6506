"""Records of memory limits that a user sets, and of memory figures that a baseline keeps.

Two figures count as equal if they differ by less than a tolerance, which is defined here. Sizes are bytes on one device,
as in `ligerdiag.model.memory`.
"""

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import PurePath

from ligerdiag.model.memory import SMALLEST_BYTES, Copy, CopyCause, MemoryUse

TOLERANCE = 0.02
"""Relative tolerance: a new figure that differs from the old one by at most this share of the old one counts as
unchanged.
"""
TOLERANCE_BYTES = SMALLEST_BYTES
"""Absolute tolerance: a new figure that differs from the old one by at most this many bytes counts as unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudgets:
    """The limits that a user sets for the memory of each program, in bytes; None means no limit."""

    memory: int | None = None
    """Most bytes that a device may need for one call, as `compute_needed` counts them."""
    copies: int | None = None
    """Most bytes that one call may copy."""

    @property
    def are_set(self) -> bool:
        return self.memory is not None or self.copies is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCopy:
    """A copy in the form in which a baseline records it.

    It has no names of instructions, because these change from compile to compile.
    """

    cause: CopyCause
    bytes: int
    """Bytes that the copy moves in one call of the program."""
    file: str = ""
    """Name of the file of the user's line, without folders; empty if the line is unknown."""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    """The part of a program's `MemoryUse` that a baseline keeps."""

    peak: int
    reserved: int
    temporaries: int
    copied: int
    copies: tuple[RecordedCopy, ...] = ()
    """The copies, largest first."""


def compute_needed(memory: MemoryUse) -> int:
    """Returns the bytes that a device must have for one call: all that XLA reserves, and the constants.

    XLA reserves the temporaries as one block before the program runs. So a program may not start although its `peak`
    would fit.
    """
    return memory.reserved + memory.constants


def compute_figures(memory: MemoryUse) -> MemoryFigures:
    """Returns the part of the memory use that a baseline keeps."""
    return MemoryFigures(
        peak=memory.peak,
        reserved=memory.reserved,
        temporaries=memory.temporaries,
        copied=memory.copied,
        copies=tuple(record_copy(copy) for copy in memory.copies),
    )


def record_copy(copy: Copy) -> RecordedCopy:
    """Returns the copy in the form in which a baseline records it: without names of instructions and without folders."""
    return RecordedCopy(
        cause=copy.cause,
        bytes=copy.total,
        file=PurePath(copy.line.file).name if copy.line is not None else "",
        line=copy.line.line if copy.line is not None else 0,
    )


def compute_change(before: int, after: int) -> int:
    """Returns `after - before` in bytes, or 0 if the difference is within the tolerance.

    The tolerance is `TOLERANCE * before` or TOLERANCE_BYTES, whichever is larger.
    """
    return after - before if abs(after - before) > max(TOLERANCE_BYTES, TOLERANCE * before) else 0


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.ASCII | re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Returns the bytes of a size such as `500M`, `4G`, `1.5GiB` or `1048576`. Units are powers of 1024.

    Raises ValueError for any other text.
    """
    match = SIZE.fullmatch(text.strip())
    number = float(match[1]) if match else float("nan")
    if match is None or not isfinite(number):
        raise ValueError(f"expected a size such as 500M, 4G or 1.5GiB but got `{text:.60}`")
    return int(number * _UNITS[match[2].upper()])
