"""Defines CallEffects: what a custom call does to the bytes of each buffer, or why that is unknown.

Beyond reads and writes it describes how a call uses the bytes of one buffer. Every value except UNKNOWN is proven: for
all programs of the launch's grid, its scalars, and the size of the buffer, provided that the kernel terminates and no
pointer leaves the buffer from which it was made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ligerdiag.model.findings import OutsideAccess, SourceLine


class ReadsBeforeWrite(StrEnum):
    """Whether a program may read an element that it has not written before, so that the old content matters."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class WriteCoverage(StrEnum):
    """How much of the buffer the call writes."""

    NONE = "none"
    """No element."""
    COMPLETE = "complete"
    """Every element, whatever the data."""
    PARTIAL = "partial"
    """Elements are written, and at least one is not, whatever the data."""
    UNKNOWN = "unknown"


class Neighbours(StrEnum):
    """Whether a program of the grid may read or write an element that another program writes."""

    DISJOINT = "disjoint"
    SHARED = "shared"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRead:
    """A read of bytes that nobody has written before: the first program to run reads the old content."""

    is_atomic: bool
    """An atomic operation reads the bytes that it updates."""
    line: SourceLine | None
    """The kernel's line; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandUse:
    """The use of one operand or output, through its own pointer."""

    reads_before_write: ReadsBeforeWrite = ReadsBeforeWrite.UNKNOWN
    coverage: WriteCoverage = WriteCoverage.UNKNOWN
    neighbours: Neighbours = Neighbours.UNKNOWN
    reason: str = ""
    """The reason for UNKNOWN, one line; empty if nothing is UNKNOWN."""
    outside: tuple[OutsideAccess, ...] = ()
    """Accesses that certainly reach outside of the buffer, whatever the data; not necessarily all of them."""
    span: tuple[int, int] | None = None
    """The first byte that may be written, and the one after the last; None if unknown, or if none is written."""
    old_read: OldRead | None = None
    """For an output that the launcher does not zero: a certain read of its bytes from before the launch."""
    may_read_old: bool = False
    """For such an output: whether such a read is possible, but not certain."""

    @property
    def is_unknown(self) -> bool:
        """Returns whether any part of it is UNKNOWN."""
        return (
            self.reads_before_write is ReadsBeforeWrite.UNKNOWN
            or self.coverage is WriteCoverage.UNKNOWN
            or self.neighbours is Neighbours.UNKNOWN
        )


UNUSED = OperandUse(reads_before_write=ReadsBeforeWrite.NO, coverage=WriteCoverage.NONE, neighbours=Neighbours.DISJOINT)
"""Use of a buffer whose pointer the kernel does not get, or does not use."""


def join_uses(uses: Iterable[OperandUse]) -> OperandUse:
    """Returns the use that holds for every configuration; takes at least one.

    If one configuration reads old content, or shares bytes, the result does; coverage must be equal in all.
    """
    found = tuple(uses)
    reads = {use.reads_before_write for use in found}
    coverages = {use.coverage for use in found}
    neighbours = {use.neighbours for use in found}
    spans = [use.span for use in found if use.coverage is not WriteCoverage.NONE]
    known = [span for span in spans if span is not None]
    span = (min(low for low, _ in known), max(high for _, high in known)) if known else None
    old_read = next((use.old_read for use in found if use.old_read is not None), None)
    joined = OperandUse(
        reads_before_write=next(
            kind for kind in (ReadsBeforeWrite.YES, ReadsBeforeWrite.UNKNOWN, ReadsBeforeWrite.NO) if kind in reads
        ),
        coverage=coverages.pop() if len(coverages) == 1 else WriteCoverage.UNKNOWN,
        neighbours=next(
            kind for kind in (Neighbours.SHARED, Neighbours.UNKNOWN, Neighbours.DISJOINT) if kind in neighbours
        ),
        reason=next((use.reason for use in found if use.reason), ""),
        outside=tuple({(one.kind, one.line): one for use in found for one in use.outside}.values()),
        span=span if len(known) == len(spans) else None,
        old_read=old_read,
        may_read_old=any(use.may_read_old for use in found),
    )
    if joined.is_unknown and not joined.reason and len(found) > 1:
        return replace(joined, reason="the configurations among which the autotuner chooses use it differently")
    return joined


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Properties of the kernel if these two buffers are exactly the same bytes."""

    reader: int
    """Number of the buffer through whose pointer the kernel reads: the call's operands, then its outputs."""
    writer: int
    """Number of the buffer through whose pointer it writes; equal to `reader` for a buffer that the kernel updates."""
    neighbours: Neighbours
    """SHARED: a program certainly reads bytes that another one certainly writes, and nothing orders the two. DISJOINT:
    no program may read bytes that another one may write. Never UNKNOWN: such a pair is omitted.
    """
    is_update: bool = False
    """SHARED, and a program that reads such bytes writes all of them afterwards, as others do: if two run at the same
    time, one of the updates is lost.
    """
    line: SourceLine | None = None
    """SHARED: the kernel's line that reads; None if unknown."""


def join_in_place(found: Sequence[Sequence[InPlace]]) -> tuple[InPlace, ...]:
    """Returns the properties for any of the configurations: shared in one is shared; disjoint must hold in all."""
    by_pair: dict[tuple[int, int], list[InPlace]] = {}
    for configuration in found:
        for pair in configuration:
            by_pair.setdefault((pair.reader, pair.writer), []).append(pair)
    joined: list[InPlace] = []
    for _, seen in sorted(by_pair.items()):
        shared = next((one for one in seen if one.neighbours is Neighbours.SHARED), None)
        if shared is not None or len(seen) == len(found):
            joined.append(shared or seen[0])
    return tuple(joined)


class Access(StrEnum):
    """The possible accesses to one buffer: every member is an upper bound, UNKNOWN the highest.

    WRITE is "may write": it does not say that every byte is overwritten.
    """

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    UNKNOWN = "unknown"

    def cover(self, other: "Access") -> "Access":
        """Returns the least access that covers both."""
        if self is other or other is Access.NONE:
            return self
        if self is Access.NONE:
            return other
        if Access.UNKNOWN in (self, other):
            return Access.UNKNOWN
        return Access.READ_WRITE

    @property
    def reads(self) -> bool:
        """Returns whether the buffer may be read; true for UNKNOWN."""
        return self in (Access.READ, Access.READ_WRITE, Access.UNKNOWN)

    @property
    def writes(self) -> bool:
        """Returns whether the buffer may be written; true for UNKNOWN."""
        return self in (Access.WRITE, Access.READ_WRITE, Access.UNKNOWN)


def join_all(accesses: Iterable[Access]) -> Access:
    """Returns the least access that covers all of them; NONE when there are none."""
    result = Access.NONE
    for access in accesses:
        result = result.cover(access)
    return result


def compute_plain_use(
    access: Access, reason: str, *, zeroed: bool = False, is_uninitialised: bool = False
) -> OperandUse:
    """Returns the use that follows from the access alone.

    is_uninitialised: the buffer is an output that the launcher does not zero.
    """
    if access is Access.NONE and not zeroed:
        return UNUSED
    if access is Access.UNKNOWN:
        return OperandUse(reason=reason)
    coverage = WriteCoverage.UNKNOWN if access.writes or zeroed else WriteCoverage.NONE
    return OperandUse(
        reads_before_write=ReadsBeforeWrite.UNKNOWN if access.reads else ReadsBeforeWrite.NO,
        coverage=coverage,
        neighbours=Neighbours.UNKNOWN if access.writes else Neighbours.DISJOINT,
        reason=reason if access.reads or access.writes or zeroed else "",
        may_read_old=is_uninitialised and access.reads,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEffects:
    """The effects of one custom call on its buffers.

    An output's access is through that output's *own* pointer. An output that shares an operand's bytes
    (`output_to_operand_aliasing`) may have no pointer in the kernel: its access is then NONE, and the operand's access
    describes the bytes.
    """

    kernel: str
    """The kernel's function name; the custom-call target if the kernel has no name."""
    operands: tuple[Access, ...]
    """One per operand of the call."""
    outputs: tuple[Access, ...]
    """One per output of the call; the leaves, in order, if the result is a tuple."""
    reasons: tuple[str, ...] = ()
    """The reasons for UNKNOWN, one line each."""
    configurations: int = 1
    """Number of configurations among which the launcher may choose (it runs all of them when it autotunes)."""
    saved: tuple[tuple[int, int], ...] = ()
    """Pairs of buffers (operands, then outputs): an autotuning launcher restores the first one if both have the same
    address.
    """
    grid: tuple[int, int, int] = (0, 0, 0)
    """Programs in x, y, z of the first configuration; zeros if there is no grid."""
    operand_uses: tuple[OperandUse, ...] = ()
    """One per operand, through the operand's own pointer; derived from the accesses if none are given."""
    output_uses: tuple[OperandUse, ...] = ()
    """One per output, likewise."""
    in_place: tuple[InPlace, ...] = ()
    """Pairs of buffers that could have the same bytes, with the kernel's safety in that case, if known."""
    operand_stores: tuple[tuple[SourceLine, ...], ...] = ()
    """One per operand: the lines of the kernel's Python source that write it; empty if unknown."""

    def __post_init__(self) -> None:
        """Fills in the uses and lines that were not given."""
        for name, accesses in (("operand_uses", self.operands), ("output_uses", self.outputs)):
            if not getattr(self, name):
                object.__setattr__(self, name, tuple(compute_plain_use(access, "") for access in accesses))
        if not self.operand_stores:
            object.__setattr__(self, "operand_stores", ((),) * len(self.operands))

    def is_put_back(self, operand: int, output: int) -> bool:
        """Returns whether an autotuning launcher restores the operand, whose bytes only that output shares."""
        places = (operand, len(self.operands) + output)
        return any(first == operand and other in places for first, other in self.saved)

    def get_in_place(self, reader: int, writer: int) -> InPlace | None:
        """Returns the properties if these buffers (operands, then outputs) are the same bytes; None if unknown."""
        return next((pair for pair in self.in_place if (pair.reader, pair.writer) == (reader, writer)), None)


def create_unknown_effects(*, kernel: str, operands: int, outputs: int, reason: str) -> CallEffects:
    """Returns the effects of a call about which only `reason` is known."""
    return CallEffects(
        kernel=kernel,
        operands=(Access.UNKNOWN,) * operands,
        outputs=(Access.UNKNOWN,) * outputs,
        reasons=(reason,),
        operand_uses=(OperandUse(reason=reason),) * operands,
        output_uses=(OperandUse(reason=reason),) * outputs,
    )
