"""Records of the memory that a compiled program needs, of the bytes that it copies, and of the requests to work in place.

Sizes are bytes on one device. Small arrays do not count: a copy or a donation below `SMALLEST_BYTES` is neither listed nor
a finding.
"""

from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import SourceLine

SMALLEST_BYTES = 64 * 1024
"""A copy, or all donated arguments together, below this size is not worth a word."""


class CopyCause(StrEnum):
    """The reason why XLA copies a value, as far as the schedule and the buffer assignment show it."""

    UNDONATED = "not donated"
    """The value that is overwritten is an argument that the caller keeps."""
    CONSTANT = "constant"
    """The value that is overwritten is a constant of the program."""
    READ_LATER = "read later"
    """The old value is read after the write."""
    RETURNED = "returned unchanged"
    """An argument, or a value that is returned twice, is an output of its own."""
    LAYOUT = "layout"
    """The output has the donated argument's bytes in another order: it is transposed, or has another layout."""
    PAIRING = "donations crossed"
    """JAX paired donated arguments with outputs that are computed from other donated arguments."""
    DONATION = "donation costs a copy"
    """The output is computed in other bytes, and then copied into the donated argument."""
    CARRY_EXCHANGED = "carry exchanged"
    """A loop returns one element of its state in the position of another one."""
    CARRY_REBUILT = "carry rebuilt"
    """A loop computes the next value of its state in other bytes, while it still reads the old one."""
    BRANCH_UNCHANGED = "branch without effect"
    """A branch returns its operand unchanged, and has to copy it to the bytes of the other branches' results."""
    BRANCH_EXCHANGED = "branch exchanges"
    """A branch returns its operands in another order than another branch."""
    EQUAL_VALUES = "equal initial values"
    """XLA makes one value of two equal ones, both of which are then overwritten."""
    RESHARDED = "resharded"
    """The partitioner moves the operand of an aliased call between devices first."""
    UNKNOWN = "unknown"
    """None of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One instruction of the schedule that moves a whole value to other bytes and changes nothing in it."""

    instruction: str
    bytes: int
    """Of one execution."""
    trips: int | None = 1
    """Executions in one call of the program; None if a loop around it has an unknown trip count."""
    in_branch: bool = False
    """It runs only if its branch is taken."""
    operand: str = ""
    """Name of the copied instruction."""
    source: str = ""
    """The bytes that it reads, such as ``argument `cache``` or `temporary memory`."""
    target: str = ""
    """The bytes that it writes."""
    is_transposed: bool = False
    """It moves the elements into another order."""
    cause: CopyCause = CopyCause.UNKNOWN
    is_needed: bool = False
    """The program as written needs it: it reads both values, or the caller keeps the argument."""
    is_round_trip: bool = False
    """It brings a value back, unchanged, to the bytes that it came from."""
    why: str = ""
    """One clause: the cause, with names."""
    line: SourceLine | None = None
    """The line of the user's program that is responsible; None if unknown."""

    @property
    def total(self) -> int:
        """Bytes in one call of the program; at least these if the trip count is unknown."""
        return self.bytes * (1 if self.trips is None else self.trips)


class DonationFault(StrEnum):
    """The reason why no output takes a donated argument's bytes."""

    NO_OUTPUT = "no output"
    """No output is as large."""
    SHAPE = "shape"
    """The outputs that are computed from it have other shapes."""
    DTYPE = "dtype"
    """An output has its shape, and another dtype."""
    SURPLUS = "surplus"
    """Other donated arguments take all outputs of its shape and dtype."""
    SHARDING = "sharding"
    """An output has its shape and dtype, and another sharding."""
    LAYOUT = "layout"
    """An output has its shape and dtype, and another layout."""
    UNUSED = "unused"
    """The program does not use the argument."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Donation:
    """A donated argument."""

    argument: str
    bytes: int
    output: str = ""
    """Name of the output that takes its bytes; empty if none does."""
    fault: DonationFault | None = None
    """The reason why none does; None if one does."""
    why: str = ""
    """One clause: the fault, with names and shapes."""
    line: SourceLine | None = None
    """The line that computes the output which could have taken it, or that uses the argument; None if unknown."""


class RequestKind(StrEnum):
    """A way to ask XLA to work in place."""

    DONATION = "donated argument"
    UPDATE = "update of a part"
    """`.at[].set`, `dynamic_update_slice`, a scatter, or a store to a `Ref`."""
    CARRY = "loop state"
    CALL = "aliased call"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An operation of the schedule whose result has to lie in the bytes of an operand."""

    kind: RequestKind
    instruction: str
    bytes: int
    is_in_place: bool
    """Nothing is copied for it."""
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValue:
    """A value that is alive when the memory in use is largest."""

    instruction: str
    bytes: int
    about: str
    """Its part: `argument`, `output`, `temporary`, `constant`, with the name of an argument or an output."""
    shape: str = ""
    """As HLO text: `f32[1024,512]`."""
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The memory in use while an instruction runs."""

    instruction: str
    bytes: int
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory of one compiled program."""

    arguments: int
    outputs: int
    """Those that donated arguments hold included."""
    aliased: int
    """Bytes that arguments and outputs share."""
    temporaries: int
    """Bytes that XLA reserves for everything else, as in `memory_analysis().temp_size_in_bytes`."""
    constants: int = 0
    peak: int = 0
    """The most bytes of values that are alive at one time; at most all that XLA reserves."""
    peak_at: str = ""
    """Name of the instruction that runs then."""
    peak_line: SourceLine | None = None
    at_peak: tuple[LiveValue, ...] = ()
    """The largest values that are alive then, largest first."""
    curve: tuple[CurvePoint, ...] = ()
    """The memory in use over the schedule; at most `MOST_POINTS`, among them the largest."""
    copies: tuple[Copy, ...] = ()
    """Largest first."""
    donations: tuple[Donation, ...] = ()
    requests: tuple[Request, ...] = ()
    collectives: tuple[tuple[str, int], ...] = ()
    """(opcode, bytes of the results in one call) of the operations that move data between devices."""
    bandwidth: float = 0.0
    """Bytes per second of the target's memory; 0 if unknown."""
    warning: str = ""
    """JAX's own warning about donations, as JAX words it; empty without any."""

    @property
    def reserved(self) -> int:
        """All bytes that XLA reserves for one call; those that arguments and outputs share count once."""
        return self.arguments + self.outputs - self.aliased + self.temporaries

    @property
    def copied(self) -> int:
        """Bytes that one call copies; at least these if a trip count is unknown."""
        return sum(one.total for one in self.copies)

    @property
    def copy_milliseconds(self) -> float | None:
        """The least time that the copies take, in milliseconds: each byte is read and written. None without a bandwidth."""
        return 2e3 * self.copied / self.bandwidth if self.bandwidth else None

    @property
    def is_in_place(self) -> bool:
        """Returns whether every request is met: nothing that the program does not need is copied, no donation is void."""
        return not any(not one.is_needed for one in self.copies) and not any(one.fault for one in self.donations)


MOST_POINTS = 400
MOST_AT_PEAK = 20
