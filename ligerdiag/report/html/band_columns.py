"""Arranges the accesses to one mutated buffer in columns, in the order of the schedule.

A column is one access, or several consecutive reads that are right in the same way: those need no attention, and the
operand of a kernel may have dozens of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.schedule_view import (
    AccessKind,
    BufferAccess,
    MutatedBuffer,
    Place,
    ReadKind,
    ScheduleStep,
    ScheduleView,
)
from ligerdiag.report.html.environment import Sign, sign_of
from ligerdiag.text import join_words

MAX_COLUMNS = 9
"""With more accesses, consecutive reads that are right share a column."""
MAX_OUTPUTS = 3
"""Most names of outputs beside a mark."""
_RIGHT = (ReadKind.FRESH, ReadKind.ORIGINAL)


class Contents(StrEnum):
    """The contents of the bytes of a buffer."""

    NOTHING = "nothing"
    OLD = "old"
    NEW = "new"
    UNSURE = "unsure"
    """The kernel's result or the old contents, because it is unknown whether the kernel writes."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One position on the time axis of a band."""

    accesses: tuple[BufferAccess, ...]
    """All of the same kind and place."""
    steps: tuple[ScheduleStep, ...]
    sign: Sign
    place: Place
    heading: str
    """Such as `stale read`."""
    outputs: str
    """Such as `loss, bias`; empty if it reaches none."""
    name: str
    """Name of the instruction, or the number of instructions."""
    when: str
    """LogicalTimes."""
    before: Contents
    after: Contents
    loop: int | None
    """Id of the innermost `while` around it."""

    @property
    def step(self) -> int:
        """Returns the id of the first step."""
        return self.steps[0].id

    @property
    def sentence(self) -> str:
        """Returns the column as a sentence, for readers who cannot see the picture."""
        where = "" if self.place is Place.SAME_BYTES else f", from {_PLACES[self.place]}"
        reaches = f", reaches {self.outputs}" if self.outputs else ""
        return f"{self.heading}: {self.name} at {self.when}{where}{reaches}"


_PLACES = {Place.COPY: "a copy", Place.RECOMPUTED: "a value that it computes again"}


def compute_columns(view: ScheduleView, buffer: int) -> tuple[Column, ...]:
    """Returns the columns in schedule order, leaving out any reuse of the bytes before the value is defined.

    An instruction's read comes before its write to the same bytes.
    """
    steps = {step.id: step for step in view.steps}
    accesses = [a for a in view.accesses if a.buffer == buffer and a.step in steps]
    accesses.sort(key=lambda access: (steps[access.step].start, access.kind is not AccessKind.READ))
    defined = next((n for n, access in enumerate(accesses) if access.kind is AccessKind.DEFINE), 0)
    accesses = [a for n, a in enumerate(accesses) if n >= defined or a.kind is not AccessKind.REUSE]
    groups = [(access,) for access in accesses]
    if len(groups) > MAX_COLUMNS:
        groups = _merge(accesses, steps)
    has_definition = any(access.kind is AccessKind.DEFINE for access in accesses)
    contents = Contents.NOTHING if has_definition else Contents.OLD
    columns: list[Column] = []
    for group in groups:
        after = compute_contents(group[0].kind, contents, view.buffers[buffer])
        columns.append(_make(group, steps, view.buffers[buffer], contents, after))
        contents = after
    return tuple(columns)


def count_hidden(columns: Sequence[Column]) -> int:
    """Returns the number of reads that share a column."""
    return sum(len(column.accesses) for column in columns if len(column.accesses) > 1)


def _merge(accesses: Sequence[BufferAccess], steps: dict[int, ScheduleStep]) -> list[tuple[BufferAccess, ...]]:
    groups: list[tuple[BufferAccess, ...]] = []
    for access in accesses:
        last = groups[-1][-1] if groups else None
        if last is not None and access.read in _RIGHT and _key(last, steps) == _key(access, steps):
            groups[-1] = (*groups[-1], access)
        else:
            groups.append((access,))
    return groups


def _key(access: BufferAccess, steps: dict[int, ScheduleStep]) -> tuple[object, ...]:
    return access.kind, access.read, access.place, steps[access.step].loops


def compute_contents(kind: AccessKind, before: Contents, buffer: MutatedBuffer) -> Contents:
    """Returns the contents of the bytes after an access."""
    match kind:
        case AccessKind.DEFINE:
            return Contents.OLD
        case AccessKind.HIDDEN_WRITE:
            return Contents.UNSURE if buffer.unknown else Contents.NEW
        case AccessKind.REUSE:
            return Contents.OTHER
        case AccessKind.READ:
            return before


def _make(
    group: tuple[BufferAccess, ...],
    steps: dict[int, ScheduleStep],
    buffer: MutatedBuffer,
    before: Contents,
    after: Contents,
) -> Column:
    first, own = group[0], tuple(steps[access.step] for access in group)
    outputs = tuple(dict.fromkeys(name for access in group for name in access.outputs))
    name = own[0].name if len(own) == 1 else f"{len(own)} instructions"
    if first.kind is AccessKind.HIDDEN_WRITE:
        name = buffer.kernel
    times = (own[0].start, own[-1].start)
    sign = sign_of(first)
    heading = sign.word if len(own) == 1 else f"{len(own)} {sign.word}s"
    if buffer.unknown and first.kind is AccessKind.HIDDEN_WRITE:
        heading = "perhaps overwritten"
    return Column(
        accesses=group,
        steps=own,
        sign=sign,
        place=first.place,
        heading=heading,
        outputs=_join_outputs(outputs),
        name=name,
        when=str(times[0]) if times[0] == times[1] else f"{times[0]} to {times[1]}",
        before=before,
        after=after,
        loop=own[0].loops[-1] if own[0].loops else None,
    )


def _join_outputs(names: Sequence[str]) -> str:
    if len(names) <= MAX_OUTPUTS:
        return join_words(names)
    return f"{', '.join(names[: MAX_OUTPUTS - 1])} and {len(names) - MAX_OUTPUTS + 1} more"
