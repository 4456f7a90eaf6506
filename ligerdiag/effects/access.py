"""The answer of this room: what a custom call does to each buffer, and why where it could not be said."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ligerdiag.effects.in_place import InPlace
from ligerdiag.effects.operand_use import UNUSED, Coverage, Neighbours, OperandUse, ReadsBeforeWrite
from ligerdiag.findings import SourceLine


class Access(Enum):
    """The possible accesses to one buffer: every member is an upper bound, UNKNOWN the highest.

    WRITE is "may write": it does not say that every byte is overwritten.
    """

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    UNKNOWN = "unknown"

    def join(self, other: "Access") -> "Access":
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
        result = result.join(access)
    return result


def compute_plain_use(access: Access, reason: str, *, zeroed: bool = False) -> OperandUse:
    """Returns what follows from the access alone: whether a buffer is read and written."""
    if access is Access.NONE and not zeroed:
        return UNUSED
    if access is Access.UNKNOWN:
        return OperandUse(reason=reason)
    coverage = Coverage.UNKNOWN if access.writes or zeroed else Coverage.NONE
    return OperandUse(
        reads_before_write=ReadsBeforeWrite.UNKNOWN if access.reads else ReadsBeforeWrite.NO,
        coverage=coverage,
        neighbours=Neighbours.UNKNOWN if access.writes else Neighbours.DISJOINT,
        reason=reason if access.reads or access.writes or zeroed else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEffects:
    """The effects of one custom call on its buffers.

    An output's access is what the call does through that output's *own* pointer. An output that shares an operand's
    bytes (`output_to_operand_aliasing`) may have no pointer of its own in the kernel: it is NONE then, and the
    operand's access says what happens to the bytes.
    """

    kernel: str
    """The kernel's function name, or the custom-call target where it has none."""
    operands: tuple[Access, ...]
    """One per operand of the call."""
    outputs: tuple[Access, ...]
    """One per output of the call; the leaves, in order, where the result is a tuple."""
    reasons: tuple[str, ...] = ()
    """The reasons for UNKNOWN, one line each."""
    configurations: int = 1
    """Number of configurations that the launcher may choose between (and runs, when it autotunes); the effects cover
    all."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Programs in x, y, z of the first configuration; zeros where there is no grid."""
    operand_uses: tuple[OperandUse, ...] = ()
    """One per operand, through the operand's own pointer; where none are given, what follows from the accesses."""
    output_uses: tuple[OperandUse, ...] = ()
    """One per output, likewise."""
    in_place: tuple[InPlace, ...] = ()
    """Of buffers that could stand in the same bytes, whether the kernel is safe there; if that is known."""
    operand_stores: tuple[tuple[SourceLine, ...], ...] = ()
    """One per operand: the lines of the kernel's Python source that write it; none where they are not known."""

    def __post_init__(self) -> None:
        """Fills in the uses and lines that were not given."""
        for name, accesses in (("operand_uses", self.operands), ("output_uses", self.outputs)):
            if not getattr(self, name):
                object.__setattr__(self, name, tuple(compute_plain_use(access, "") for access in accesses))
        if not self.operand_stores:
            object.__setattr__(self, "operand_stores", ((),) * len(self.operands))

    def find_in_place(self, reader: int, writer: int) -> Neighbours:
        """Returns what holds if these buffers (operands, then outputs) are the same bytes; see `InPlace`."""
        pairs = (pair.neighbours for pair in self.in_place if (pair.reader, pair.writer) == (reader, writer))
        return next(pairs, Neighbours.UNKNOWN)


def create_unknown_effects(*, kernel: str, operands: int, outputs: int, reason: str) -> CallEffects:
    """Effects of a call about which nothing is known but `reason`."""
    return CallEffects(
        kernel=kernel,
        operands=(Access.UNKNOWN,) * operands,
        outputs=(Access.UNKNOWN,) * outputs,
        reasons=(reason,),
        operand_uses=(OperandUse(reason=reason),) * operands,
        output_uses=(OperandUse(reason=reason),) * outputs,
    )
