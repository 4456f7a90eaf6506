"""Defines CallEffects: the effects of a custom call on the bytes of each of its buffers, or why they are unknown.

An `Access` says whether the call reads or writes a buffer; an `OperandUse` says in more detail how. A *program* is here one
instance of the kernel; the launch's grid consists of programs. Every value except UNKNOWN is proven for all programs of the
grid, for the scalars that the launch passes and the size of the buffer. It holds if the kernel terminates and no pointer
leaves the buffer from which it was made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ligerdiag.model.findings import OutsideAccess, SourceLine


class ReadsBeforeWrite(StrEnum):
    """Whether any program of the grid reads an element of a buffer that it has not written before. If so, the buffer's old
    contents matter.

    YES means that some program certainly does so; NO means that no program can.
    """

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class WriteCoverage(StrEnum):
    """How much of a buffer a custom call writes."""

    NONE = "none"
    """The call writes no element."""
    COMPLETE = "complete"
    """The call writes every element, whatever the data."""
    PARTIAL = "partial"
    """The call writes some elements and leaves at least one, whatever the data."""
    UNKNOWN = "unknown"


class Neighbours(StrEnum):
    """Whether two programs of the grid use one element of a buffer, and at least one of them writes it.

    SHARED means that two programs certainly do so; DISJOINT means that no two programs can.
    """

    DISJOINT = "disjoint"
    SHARED = "shared"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRead:
    """A read that sees a buffer's contents from before the launch. Programs of the grid may overwrite the bytes during the
    launch, so only the first program that reads them certainly sees the old contents.
    """

    is_atomic: bool
    """Whether the read is part of an atomic operation, which reads the bytes that it updates."""
    line: SourceLine | None
    """The line of the kernel's source that reads; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandUse:
    """How a kernel uses one operand or output of its custom call, through the pointer to that buffer."""

    reads_before_write: ReadsBeforeWrite = ReadsBeforeWrite.UNKNOWN
    coverage: WriteCoverage = WriteCoverage.UNKNOWN
    neighbours: Neighbours = Neighbours.UNKNOWN
    reason: str = ""
    """Why a part of this use is UNKNOWN, in one line; empty if all parts are known."""
    outside: tuple[OutsideAccess, ...] = ()
    """Accesses that certainly reach outside the buffer, whatever the data; the list may be incomplete."""
    span: tuple[int, int] | None = None
    """The range of bytes that may be written: its first byte, and the byte after its last. None if the range is unknown
    or nothing is written.
    """
    old_read: OldRead | None = None
    """A read that certainly sees bytes of the buffer from before the launch; None if no such read is certain. Recorded only
    for an output that the launcher does not zero; None for any other buffer.
    """
    may_read_old: bool = False
    """Whether the kernel possibly, but not certainly, reads bytes of the buffer from before the launch. Only for an
    output that the launcher does not zero.
    """

    @property
    def is_unknown(self) -> bool:
        """Returns whether any of `reads_before_write`, `coverage` and `neighbours` is UNKNOWN."""
        return (
            self.reads_before_write is ReadsBeforeWrite.UNKNOWN
            or self.coverage is WriteCoverage.UNKNOWN
            or self.neighbours is Neighbours.UNKNOWN
        )


UNUSED = OperandUse(reads_before_write=ReadsBeforeWrite.NO, coverage=WriteCoverage.NONE, neighbours=Neighbours.DISJOINT)
"""The use of a buffer whose pointer the kernel does not receive, or receives and does not use."""


def join_uses(uses: Iterable[OperandUse]) -> OperandUse:
    """Joins the uses of one buffer in several configurations into a use that is true of all of them. A configuration is a
    tuned choice of block sizes, warps and so on, which the launcher may run.

    The result is YES or SHARED if the use in one configuration is. The coverage is UNKNOWN unless it is the same in all
    configurations. uses: the use of the buffer in each configuration, at least one.
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
        return replace(joined, reason="the configurations that the autotuner tries use the buffer in different ways")
    return joined


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Says whether programs of the grid would conflict if two buffers were the same bytes. They conflict if one writes
    bytes that another one reads. `reader` is the buffer that the kernel reads, `writer` the buffer that it writes; they
    may be one buffer.
    """

    reader: int
    """Number of the buffer through whose pointer the kernel reads. The call's operands have the first numbers, the call's
    outputs the next.
    """
    writer: int
    """Number of the buffer through whose pointer the kernel writes; equal to `reader` if the kernel reads and writes through
    one pointer.
    """
    neighbours: Neighbours
    """SHARED: a program certainly reads bytes that another program certainly writes, and nothing orders the two.
    DISJOINT: no program may read bytes that another program may write. Never UNKNOWN: a pair of buffers for which
    neither SHARED nor DISJOINT is proven has no `InPlace`.
    """
    is_update: bool = False
    """Whether the programs update shared bytes: `neighbours` is SHARED, and each program that reads shared bytes afterwards
    writes all of them. If two such programs run at the same time, the update of one of them is lost.
    """
    line: SourceLine | None = None
    """The line of the kernel's source that reads the shared bytes; None if unknown or if `neighbours` is DISJOINT."""


def join_in_place(found: Sequence[Sequence[InPlace]]) -> tuple[InPlace, ...]:
    """Joins the pairs of buffers of several configurations. The `InPlace` of a pair is true of all configurations that
    the launcher may run.

    A pair is SHARED if it is SHARED in at least one configuration, and DISJOINT if it is DISJOINT in all configurations.
    A pair that is neither is left out. found: for each configuration, its known pairs.
    """
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
    """How a custom call may access one buffer. Each member is an upper bound; UNKNOWN is the highest.

    WRITE means "may write": it does not say that every byte is overwritten.
    """

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    UNKNOWN = "unknown"

    def cover(self, other: "Access") -> "Access":
        """Returns the lowest `Access` that includes this access and `other`: READ_WRITE for READ and WRITE."""
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
    """Returns the lowest `Access` that includes all of `accesses`; NONE if `accesses` is empty."""
    result = Access.NONE
    for access in accesses:
        result = result.cover(access)
    return result


def compute_plain_use(
    access: Access, reason: str, *, zeroed: bool = False, is_uninitialised: bool = False
) -> OperandUse:
    """Returns the use of a buffer of which only the access is known. Properties that the access does not decide are UNKNOWN.

    reason: why nothing more is known. zeroed: whether the launcher zeroes bytes of the buffer first. is_uninitialised:
    whether the buffer is an output that the launcher does not zero.
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

    The access to an output covers only reads and writes through the output's *own* pointer. An output that shares an
    operand's bytes (`output_to_operand_aliasing`) may have no pointer in the kernel: the output's access is then NONE, and
    the operand's access describes the bytes.
    """

    kernel: str
    """The kernel's function name; the custom-call target if the kernel has no name."""
    operands: tuple[Access, ...]
    """The access to each operand of the call."""
    outputs: tuple[Access, ...]
    """The access to each output of the call: to the leaves, in order, if the result is a tuple."""
    reasons: tuple[str, ...] = ()
    """Why some accesses are UNKNOWN, one line per reason."""
    configurations: int = 1
    """Number of configurations from which the launcher may choose (it runs all of them when it autotunes)."""
    saved: tuple[tuple[int, int], ...] = ()
    """Pairs (input, output) of buffer numbers, operands before outputs, as the payload declares them to the autotuner. Its
    trial runs use the real buffers; afterwards it restores the input if both buffers of a pair have the same address.
    """
    grid: tuple[int, int, int] = (0, 0, 0)
    """Number of programs in x, y and z, in the first configuration; zeros if there is no grid."""
    operand_uses: tuple[OperandUse, ...] = ()
    """The use of each operand through the operand's own pointer; derived from the access to the operand if not given.
    """
    output_uses: tuple[OperandUse, ...] = ()
    """The use of each output through the output's own pointer; derived from the access to the output if not given."""
    in_place: tuple[InPlace, ...] = ()
    """For each pair of buffers for which this is known: whether programs of the grid write bytes that other programs read,
    if the two buffers are the same bytes.
    """
    operand_stores: tuple[tuple[SourceLine, ...], ...] = ()
    """For each operand, the lines of the kernel's Python source that write it; no lines if unknown."""
    operand_names: tuple[str, ...] = ()
    """For each operand, the name of the kernel's parameter that gets it; empty where unknown."""
    result_sources: tuple[int, ...] | None = None
    """Numbers of the operands on whose contents the call's outputs may depend; None if they may depend on all operands. Only
    true of a call whose buffers are different bytes.
    """
    code: str = ""
    """A hash of the kernel's code without the names that JAX numbers anew each time that it lowers the program: kernels
    with equal hashes do the same. Only for Mosaic GPU, whose payload differs each time; else empty.
    """

    def __post_init__(self) -> None:
        """Fills in the fields with an entry for each operand or output where they were not given."""
        for name, accesses in (("operand_uses", self.operands), ("output_uses", self.outputs)):
            if not getattr(self, name):
                object.__setattr__(self, name, tuple(compute_plain_use(access, "") for access in accesses))
        if not self.operand_stores:
            object.__setattr__(self, "operand_stores", ((),) * len(self.operands))
        if not self.operand_names:
            object.__setattr__(self, "operand_names", ("",) * len(self.operands))

    def is_put_back(self, operand: int, output: int) -> bool:
        """Returns whether an autotuning launcher restores an operand after it has run the kernel on trial.

        operand: number of the operand. output: number of the only output that shares the operand's bytes; the caller must
        have checked this.
        """
        places = (operand, len(self.operands) + output)
        return any(first == operand and other in places for first, other in self.saved)

    def get_in_place(self, reader: int, writer: int) -> InPlace | None:
        """Returns the entry of `in_place` for two buffers; None if it is unknown.

        reader: number of the buffer that the kernel reads. writer: number of the buffer that it writes. The operands have
        the first numbers, the outputs the next.
        """
        return next((pair for pair in self.in_place if (pair.reader, pair.writer) == (reader, writer)), None)


def create_unknown_effects(*, kernel: str, operands: int, outputs: int, reason: str) -> CallEffects:
    """Returns the effects of a call of which nothing is known: all accesses are UNKNOWN. reason: why nothing is known."""
    return CallEffects(
        kernel=kernel,
        operands=(Access.UNKNOWN,) * operands,
        outputs=(Access.UNKNOWN,) * outputs,
        reasons=(reason,),
        operand_uses=(OperandUse(reason=reason),) * operands,
        output_uses=(OperandUse(reason=reason),) * outputs,
    )
