"""Arranges the accesses to one mutated buffer (one that a kernel overwrites behind XLA's back) in columns, in the order
of the schedule.

A column is one access. If there are many, consecutive reads that are right in the same way share a column: they need no
attention, and a kernel's operand may have dozens of them.
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
"""With more accesses than this, consecutive reads that are right share a column."""
MAX_OUTPUTS = 3
"""A column names at most this many outputs."""
_RIGHT = (ReadKind.FRESH, ReadKind.ORIGINAL)


class Contents(StrEnum):
    """The value in the bytes of an overwritten buffer at one time, such as the one from before the kernel's write."""

    NOTHING = "nothing"
    OLD = "old"
    NEW = "new"
    UNSURE = "unsure"
    """The kernel's result or the old contents: it is unknown whether the kernel writes."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One position on the time axis of a buffer: an access, or several reads that are right in the same way."""

    accesses: tuple[BufferAccess, ...]
    """The accesses of the column, all of the same kind and to the same bytes."""
    steps: tuple[ScheduleStep, ...]
    sign: Sign
    place: Place
    heading: str
    """A description of the accesses, such as `stale read`."""
    outputs: str
    """The outputs that the accesses reach, such as `loss, bias`; empty if there are none."""
    name: str
    """Name of the instruction that makes the access, or of the kernel for its write; for several accesses, the number
    of instructions.
    """
    when: str
    """Logical time of the access, such as `7`, or of the first and last one, such as `7 to 12`."""
    before: Contents
    after: Contents
    loop: int | None
    """Step id of the innermost `while` around the access; None outside of loops."""

    @property
    def step(self) -> int:
        """Returns the id of the first step (scheduled instruction) of the column."""
        return self.steps[0].id

    @property
    def sentence(self) -> str:
        """Returns a sentence that says what the column shows, for readers who cannot see the picture."""
        where = "" if self.place is Place.SAME_BYTES else f", from {_PLACES[self.place]}"
        reaches = f", reaches {self.outputs}" if self.outputs else ""
        return f"{self.heading}: {self.name} at {self.when}{where}{reaches}"


_PLACES = {Place.COPY: "a copy", Place.RECOMPUTED: "a value that it computes again"}


def compute_columns(view: ScheduleView, buffer: int) -> tuple[Column, ...]:
    """Returns the columns for one buffer in schedule order.

    Values that XLA puts into the same bytes before the overwritten value is computed have no column. If one instruction
    reads and writes the bytes, the read comes first. buffer: index into `view.buffers`.
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
    """Returns the number of reads that have no column of their own, because they share one with other reads."""
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
    """Returns which value the buffer's bytes have after an access of kind `kind`.

    before: the value that they have before the access.
    """
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
