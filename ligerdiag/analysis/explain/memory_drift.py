"""Compares the memory of two compiles of one program: its figures (peak, reserved, temporaries, copied), and its copies
by cause and source line.

Differences within the tolerance of `ligerdiag.model.memory_limits` do not count. A copy has no name that is the same in
two compiles, so all copies with the same cause and source line count as one copy. If an edit has moved a copy to
another line, the copy is found again by its cause and its number of bytes. A copy whose cause has another name is found
again by its line and its number of bytes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.model.memory import CopyCause
from ligerdiag.model.memory_limits import MemoryFigures, RecordedCopy, compute_change
from ligerdiag.source_text import join_place
from ligerdiag.text import render_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """One figure of a program's memory that differs between two compiles by more than the tolerance."""

    name: str
    """Name of the figure as messages show it, such as `peak` or `copied bytes`."""
    before: int
    """Bytes in the first compile."""
    after: int

    @property
    def is_worse(self) -> bool:
        return self.after > self.before

    @property
    def text(self) -> str:
        """Returns a clause such as `the peak was 12 MiB and is 76 MiB`."""
        verbs = ("were", "are") if self.name.endswith("s") else ("was", "is")
        name = f"the {self.name} {verbs[0]}"
        return f"{name} {render_bytes(self.before)} and {verbs[1]} {render_bytes(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyChange:
    """The copies of one cause on one source line, if their bytes differ between two compiles."""

    cause: CopyCause
    file: str
    """Name of the source file, without folders; empty if it is unknown."""
    line: int
    before: int
    """Bytes copied in one call of the first compile; 0 if it has no such copy."""
    after: int
    """Bytes copied in one call of the second compile; 0 if it has no such copy."""

    @property
    def is_worse(self) -> bool:
        return self.after > self.before

    @property
    def place(self) -> str:
        """Returns the source line as text: `train.py:41`, only `train.py` if the line is unknown, '' if the file is."""
        return join_place(self.file, self.line)

    @property
    def text(self) -> str:
        """Returns a phrase such as `64 MiB, not donated, at train.py:41`."""
        size = render_bytes(self.after or self.before)
        if self.before and self.after:
            size = f"{render_bytes(self.before)}, now {size}"
        cause = f", {self.cause.value}" if self.cause is not CopyCause.UNKNOWN else ""
        return f"{size}{cause}" + (f", at {self.place}" if self.place else "")


FIGURES = ("peak", "reserved", "temporaries", "copied")
"""Names of the fields of `MemoryFigures` that are compared between compiles."""
_NAMES: Mapping[str, str] = {"reserved": "reserved memory", "copied": "copied bytes"}


def compare_figures(before: MemoryFigures, after: MemoryFigures) -> tuple[FigureChange, ...]:
    """Returns the figures that differ by more than the tolerance. The figure that grew most comes first."""
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in FIGURES]
    changes = [
        FigureChange(name=_NAMES.get(name, name), before=old, after=new)
        for name, old, new in pairs
        if compute_change(old, new)
    ]
    return tuple(sorted(changes, key=lambda change: change.before - change.after))


type _Key = tuple[CopyCause, str, int]


def compare_copies(before: Sequence[RecordedCopy], after: Sequence[RecordedCopy]) -> tuple[CopyChange, ...]:
    """Returns the groups of copies that are new, larger, smaller or gone in the second compile. A group has one cause and
    one source line. The group that grew most comes first.
    """
    old, new = _count(before), _count(after)
    pairs = {key: (old[key], new[key]) for key in (*new, *old)}
    changed = {key: both for key, both in pairs.items() if compute_change(*both)}
    for key in [key for key, (was, _) in changed.items() if not was]:
        alike = [one for one, both in changed.items() if both == (changed[key][1], 0)]
        moved = next((one for one in alike if one[0] is key[0]), None)
        moved = moved or next((one for one in alike if _is_same_copy(one, key)), None)
        if moved is not None:
            del changed[key], changed[moved]
    changes = [
        CopyChange(cause=cause, file=file, line=line, before=was, after=now)
        for (cause, file, line), (was, now) in changed.items()
    ]
    return tuple(sorted(changes, key=lambda change: change.before - change.after))


_OF_RETURNED = frozenset({CopyCause.RETURNED, CopyCause.PAIRING})
"""Causes of the copies of an argument that the program returns. Such a copy need not have a source line."""


def _is_same_copy(one: _Key, other: _Key) -> bool:
    """Returns whether copies of equal size may be one copy whose cause has another name now."""
    if one[1] and other[1]:
        return one[1:] == other[1:]
    return _OF_RETURNED.issuperset((one[0], other[0]))


def _count(copies: Sequence[RecordedCopy]) -> Counter[_Key]:
    """Returns the bytes copied for each (cause, file, line), summed over all copies with these."""
    sizes: Counter[_Key] = Counter()
    for copy in copies:
        sizes[copy.cause, copy.file, copy.line] += copy.bytes
    return sizes
