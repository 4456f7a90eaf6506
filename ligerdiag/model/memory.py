"""Records of the memory that a compiled program needs, of the bytes that it copies, and of the program's requests to
work in place.

Sizes are bytes on one device. Small arrays do not count: a copy or a donation below `SMALLEST_BYTES` is neither listed
nor a finding.
"""

from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import SourceLine

SMALLEST_BYTES = 64 * 1024
"""Bytes below which a copy, or all donated arguments together, are not reported."""


class CopyCause(StrEnum):
    """The reason why XLA copies a value, as the schedule and the buffer assignment show it."""

    UNDONATED = "not donated"
    """The value that is overwritten is an argument that the caller keeps."""
    CONSTANT = "constant"
    """The value that is overwritten is a constant of the program."""
    READ_LATER = "read later"
    """The old value is still read after the write that would overwrite it."""
    RETURNED = "returned unchanged"
    """An argument is returned unchanged, or a value is returned twice: each output needs bytes of its own."""
    LAYOUT = "layout"
    """The output has the donated argument's bytes in another order: it is transposed, or has another layout."""
    PAIRING = "donations crossed"
    """JAX pairs each donated argument with an output; here it paired some with outputs that are computed from other
    donated arguments.
    """
    DONATION = "donation costs a copy"
    """The output is computed in other bytes, and then copied into the donated argument."""
    CARRY_EXCHANGED = "carry exchanged"
    """A loop returns one element of its state in the position of another element."""
    CARRY_REBUILT = "carry rebuilt"
    """A loop computes the next value of its state in other bytes, while it still reads the old one."""
    BRANCH_UNCHANGED = "branch without effect"
    """A branch returns its operand unchanged, and has to copy it to the bytes of the other branches' results."""
    BRANCH_EXCHANGED = "branch exchanges"
    """Two branches return the same operands in different orders."""
    EQUAL_VALUES = "equal initial values"
    """XLA makes one value of two equal initial values, both of which the program then overwrites."""
    RESHARDED = "resharded"
    """XLA's partitioner first moves the operand of an aliased call between devices, and so to other bytes."""
    UNKNOWN = "unknown"
    """The cause is not known: no cause above fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """An instruction of the schedule that only moves a whole value to other bytes."""

    instruction: str
    bytes: int
    """Bytes that one execution of the instruction copies."""
    trips: int | None = 1
    """Number of executions of the instruction in one call of the program; None if a loop around it has an unknown trip
    count.
    """
    in_branch: bool = False
    """Whether the copy is in a branch of a conditional, and so runs only if that branch is taken."""
    operand: str = ""
    """Name of the copied instruction."""
    source: str = ""
    """The bytes that the copy reads, such as ``argument `cache``` or `temporary memory`."""
    target: str = ""
    """The bytes that the copy writes, described as in `source`."""
    is_transposed: bool = False
    """Whether the copy puts the elements into another order."""
    cause: CopyCause = CopyCause.UNKNOWN
    is_needed: bool = False
    """Whether the program as written needs the copy: it reads both values, or the caller keeps the argument."""
    is_round_trip: bool = False
    """Whether the copy brings a value back, unchanged, to the bytes that it came from."""
    why: str = ""
    """One clause that states the cause, with names."""
    line: SourceLine | None = None
    """The line of the user's program that is responsible for the copy; None if unknown."""

    @property
    def total(self) -> int:
        """Returns the bytes that all executions of this copy move in one call of the program.

        The number is a lower bound if a trip count is unknown.
        """
        return self.bytes * (1 if self.trips is None else self.trips)


class DonationFault(StrEnum):
    """The reason why no output takes the bytes of a donated argument."""

    NO_OUTPUT = "no output"
    """No output is as large as the argument."""
    SHAPE = "shape"
    """The outputs that are computed from the argument have other shapes."""
    DTYPE = "dtype"
    """An output has the argument's shape, but another dtype."""
    SURPLUS = "surplus"
    """Other donated arguments take all outputs of the argument's shape and dtype."""
    SHARDING = "sharding"
    """An output has the argument's shape and dtype, but another sharding."""
    LAYOUT = "layout"
    """An output has the argument's shape and dtype, but another layout."""
    MEMORY = "memory"
    """JAX pairs the argument with an output in another memory: one of the two is in the memory of the host, the other
    in that of the device.
    """
    UNUSED = "unused"
    """The program does not use the argument."""
    DROPPED = "dropped"
    """The function never reads the argument, so JAX drops it: the argument is neither reused nor deleted."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Donation:
    """A donated argument, with the output that takes its bytes, or with the reason why none does."""

    argument: str
    bytes: int
    output: str = ""
    """Name of the output that takes the argument's bytes; empty if no output takes them."""
    fault: DonationFault | None = None
    """The reason why no output takes the argument's bytes; None if an output takes them."""
    why: str = ""
    """One clause that states the fault, with names and shapes."""
    line: SourceLine | None = None
    """The user's line that computes the output that could have taken the argument's bytes. If there is no such output,
    the line that uses the argument. None if both are unknown.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedArgument:
    """An array that JAX drops from the arguments of the compiled program, because the function never reads it."""

    argument: str
    bytes: int
    is_donated: bool = False
    """Whether the argument is donated. JAX neither reuses nor deletes a donated argument that it drops."""


class RequestKind(StrEnum):
    """A way in which a program asks XLA to work in place, such as a donated argument or `.at[].set`."""

    DONATION = "donated argument"
    UPDATE = "update of a part"
    """An update of a part of an array: `.at[].set`, `dynamic_update_slice`, a scatter, or a store to a `Ref`."""
    CARRY = "loop state"
    CALL = "aliased call"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An operation of the schedule that asks to put its result into the bytes of an operand."""

    kind: RequestKind
    instruction: str
    bytes: int
    is_in_place: bool
    """Whether XLA works in place as requested, without a copy."""
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValue:
    """A value that is alive when the memory in use is largest (at the peak)."""

    instruction: str
    bytes: int
    about: str
    """The value's role: `argument`, `output`, `temporary` or `constant`. For an argument or an output, its name follows."""
    shape: str = ""
    """The value's shape as HLO text, such as `f32[1024,512]`."""
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The memory in use while an instruction runs."""

    instruction: str
    bytes: int
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory that one compiled program uses, with its copies, its donations and the values alive at the peak."""

    arguments: int
    outputs: int
    """Bytes of the outputs, including those that lie in donated arguments."""
    aliased: int
    """Bytes that arguments and outputs share."""
    temporaries: int
    """Bytes that XLA reserves for everything but arguments, outputs and constants, as in
    `memory_analysis().temp_size_in_bytes`.
    """
    constants: int = 0
    peak: int = 0
    """The largest number of bytes of values that are alive at one time; at most all that XLA reserves."""
    peak_at: str = ""
    """Name of the instruction that runs when `peak` bytes are alive."""
    peak_line: SourceLine | None = None
    at_peak: tuple[LiveValue, ...] = ()
    """The largest values that are alive when the memory in use is at its peak, largest first."""
    curve: tuple[CurvePoint, ...] = ()
    """The memory in use over the schedule: at most `MOST_POINTS` points, the largest one among them."""
    copies: tuple[Copy, ...] = ()
    """The copies of the schedule, largest first."""
    donations: tuple[Donation, ...] = ()
    """The donated arguments, including those that JAX drops."""
    dropped: tuple[DroppedArgument, ...] = ()
    """The arguments that JAX drops because the function never reads them; they count in no other figure."""
    requests: tuple[Request, ...] = ()
    collectives: tuple[tuple[str, int], ...] = ()
    """(opcode, bytes of the results in one call) of each kind of operation that moves data between devices."""
    bandwidth: float = 0.0
    """Bytes per second that the target's memory can move; 0 if unknown."""
    warning: str = ""
    """JAX's own warning about donations, in JAX's words; empty if it gave none."""

    @property
    def reserved(self) -> int:
        """Returns all bytes that XLA reserves for one call. Bytes that arguments and outputs share count once."""
        return self.arguments + self.outputs - self.aliased + self.temporaries

    @property
    def copied(self) -> int:
        """Returns the bytes that one call copies. The number is a lower bound if a trip count is unknown."""
        return sum(one.total for one in self.copies)

    @property
    def copy_milliseconds(self) -> float | None:
        """Returns a lower bound, in milliseconds, of the time that the copies of one call take.

        Each copied byte is read once and written once. None if the target's bandwidth is unknown.
        """
        return 2e3 * self.copied / self.bandwidth if self.bandwidth else None

    @property
    def is_in_place(self) -> bool:
        """Returns whether XLA meets every request of the program to work in place.

        It does if the program itself needs each copy, and if an output takes the bytes of each donated argument.
        """
        return not any(not one.is_needed for one in self.copies) and not any(one.fault for one in self.donations)


MOST_POINTS = 400
MOST_AT_PEAK = 20
