"""Records of what ligerdiag says about a program: verdicts for outputs, findings for places, outcomes of numbers.
Plain data, no behaviour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """The weight of a finding against `--fail-on`; one per rule, fixed."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Verdict(StrEnum):
    """How an output of the program relates to the intended values.

    Ordered from good to bad by `VERDICT_ORDER`; the worst wins where several apply.
    """

    FRESH = "fresh"
    """As intended, and the order that makes it so is forced by data or control dependences."""
    LATENT = "latent"
    """As intended in this schedule, by luck: nothing forces the order."""
    UNKNOWN = "unknown"
    """Could not be decided; never counts as clean."""
    CLOBBERED = "clobbered"
    """The output sees a hidden write that it should not see: something needed the original value."""
    STALE = "stale"
    """Misses a hidden write that it should see."""

    @property
    def is_wrong(self) -> bool:
        """Returns whether the schedule computes another value than the intended one."""
        return self in (Verdict.STALE, Verdict.CLOBBERED)

    @property
    def is_right(self) -> bool:
        """Returns whether the schedule computes the intended value, be it by luck."""
        return self in (Verdict.FRESH, Verdict.LATENT)


VERDICT_ORDER = (Verdict.FRESH, Verdict.LATENT, Verdict.UNKNOWN, Verdict.CLOBBERED, Verdict.STALE)


_INSTALLED = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/jax/_src/",
    "/jax/experimental/",
    "/jax_triton/triton_lib.py",
    "/ligerdiag/in_place.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A place in the user's program, from the HLO's source metadata."""

    file: str
    line: int
    """1-based; 0 when not known, as any number below is."""
    function: str = ""

    def __post_init__(self) -> None:
        if self.line < 0:
            object.__setattr__(self, "line", 0)

    @property
    def is_installed(self) -> bool:
        """Whether the file is of Python or an installed package. By its path alone: a dump comes from another machine, and
        what jax is made of has the same names in a folder of `pip install --target`."""
        return self.file.startswith("<frozen ") or any(part in self.file for part in _INSTALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure:
    """A rule that failed on a module, a bug of ligerdiag's: what it would have found there is unknown."""

    rule: str
    """Rule id."""
    message: str
    """One line, lower case, no final stop: which rule, and what it failed of."""


class SuppressionKind(StrEnum):
    """The place where a suppression is written."""

    IN_CODE = "in code"
    """A comment on the user's source line."""
    CONFIG = "config"
    """An entry of `[tool.ligerdiag]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A user's statement that a finding is allowed; it stays a finding."""

    kind: SuppressionKind
    reason: str
    where: str
    """`file:line` of the comment, or file and number of the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """The place of a kernel call that overwrites an operand: the line where its author acts."""

    line: SourceLine | None
    """The line that calls the kernel; None where it is not known."""
    stores: tuple[SourceLine, ...] = ()
    """The kernel's lines that write the operand; empty where its IR does not say them."""
    callers: tuple[SourceLine, ...] = ()
    """The callers of that line, innermost first. For a call of a backward function: the lines of the forward pass."""
    in_backward: bool = False
    """`callers` are lines of the forward pass, and the call is in their backward pass."""
    number: int = 0
    """Tells the calls apart that one line makes: the number of the hidden write."""
    target: str = ""
    """The custom call's target, which tells the generation of jax-triton."""
    operands: int = 0
    """Number of operands of the custom call."""
    outputs: int = 0
    """Number of its outputs."""
    is_declared: bool = False
    """An output of the call is declared to be the overwritten operand: there is nothing to declare."""
    written: tuple[int, ...] = ()
    """Every operand that the call overwrites without XLA's knowledge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlace:
    line: SourceLine | None
    """None where the HLO does not say it."""
    in_backward: bool = False
    """The read is in the backward pass of that line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One hazard at one place: a fact, the place, the evidence, one remedy (see docs/rules/)."""

    rule: str
    """Rule id, such as `LD001`."""
    severity: Severity
    message: str
    """One line, lower case, no final stop, names in backticks."""
    outputs: tuple[str, ...] = ()
    """Names of the program's outputs that it reaches; empty when it reaches none or concerns the call itself."""
    source: SourceLine | None = None
    """The user's line to look at: that of the kernel call for a hidden write, else the one that the rule is about."""
    kernel: str = ""
    """The kernel's function name."""
    operand: int | None = None
    """operand_number of the kernel's custom call that is overwritten, 0-based."""
    instructions: tuple[str, ...] = ()
    """Names of the optimized module's instructions involved, the kernel's custom call first."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs such as ("write", "%call overwrites operand 0, %fusion, at logical time 14")."""
    help: str = ""
    """One remedy."""
    suppressed: Suppression | None = None
    """The suppression that allows it; None if there is none."""
    call: CallPlace | None = None
    """The kernel call that overwrites the operand, where the finding is about one."""
    reader: ReadPlace | None = None
    """The reader, if the finding is about a read."""
    decided: tuple[str, ...] = ()
    """Names of those outputs that it reaches by decisions alone, such as a predicate: they may be right on some numbers."""
    parts: tuple["Finding", ...] = ()
    """Of a cause that several findings have: these findings (see `causes`)."""


class Attribution(StrEnum):
    """How the numbers of an output are explained."""

    FRESH = "fresh"
    """Equal to the intended ones, up to rounding."""
    STALE = "stale"
    """Equal to the result when no instruction sees what the kernels wrote."""
    PARTLY_STALE = "partly stale"
    """Some rows are as intended, the others stale."""
    LOSSY = "lossy"
    """Nearer to the intended ones than to the stale ones, and worse than rounding explains."""
    NEITHER = "neither"
    """Wrong, and not what a stale read gives."""
    UNDECIDED = "undecided"
    """The numbers cannot tell: intended and stale agree, or the intended ones are not finite."""

    @property
    def is_wrong(self) -> bool:
        """Returns whether the numbers differ from the intended ones by more than precision."""
        return self in (Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER)


FAR = 0.5
"""Relative error from which on a result is another one, and not a rounded one."""


class ReplayState(StrEnum):
    """How far the replay of a case got."""

    DONE = "done"
    TOO_LARGE = "too large"
    """Estimated above the bounds on seconds or bytes; `--full` runs it."""
    NOT_COVERED = "not covered"
    """Holds something that replay does not compute; `reason` names it."""
    FAILED = "failed"
    """The worker died, took too long or could not run the case's function; `reason` says which."""
    NOT_ASKED = "not asked"
    NOT_DONE = "not done"
    """The run was ended before its turn, or a dump lacks what a replay needs; `reason` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNumbers:
    """One output against the intended and the stale prediction."""

    attribution: Attribution
    error: float
    """||actual - intended|| / ||intended||, in f64; NaN when either is not finite."""
    stale_error: float
    """||actual - stale|| / ||stale||."""
    distance: float
    """||stale - intended|| / ||intended||: how well the numbers can tell."""
    tolerance: float
    """Relative error up to which two results of this output count as equal."""
    rows_fresh: int = 0
    """Rows (the first dimension; one for a scalar) that equal the intended ones."""
    rows_stale: int = 0
    """Rows that equal the stale ones and not the intended ones."""
    rows: int = 0
    """Rows in all; 0 when rows were not requested."""


class MemoryOperation(StrEnum):
    """What an operation of a kernel does to memory."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMeeting:
    """Bytes that one program of a grid writes and another one reads or writes; atomic accesses meet each other only where
    the order shows in them."""

    buffer: int
    """The writer's: number among the call's operands, then outputs."""
    other_buffer: int
    """Through which the other program accesses them."""
    writer: int
    other: int
    """Linear numbers in the grid, x changes fastest."""
    other_writes: bool
    first_byte: int
    """Counted from the start of `buffer`."""
    bytes: int
    line: SourceLine | None
    """Of the kernel: the write."""
    other_line: SourceLine | None
    are_atomic: bool = False
    """Both are atomic operations, whose order shows: what one of them returns is used, or the last one stays."""


class OrderTried(StrEnum):
    """How a launch ran again, to see whether the order of its programs shows."""

    NONE = "none"
    BACKWARD = "backward"
    """One after the other, from the last to the first."""
    TOGETHER = "together"
    """At the same time, operation by operation."""
    APART = "apart"
    """From the first to the last, and each output has bytes that no operand shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenRead:
    """Bytes of an output that a kernel reads before any program of the launch has written them, in whichever order."""

    output: int
    """Number among the call's outputs."""
    bytes: int
    size: int
    """Bytes of the output."""
    is_atomic: bool
    """The first such read is an atomic operation's, which updates what it reads."""
    program: int
    """The first program that does it; linear number in the grid."""
    first_byte: int
    line: SourceLine | None
    """Of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAccess:
    """Elements outside of a buffer that one operation of a kernel accesses, the launch with the most of them.

    Replay loads zero there, and drops what is stored.
    """

    kind: MemoryOperation
    buffer: int | None
    """Number among the call's operands, then outputs; None where the pointer is no buffer's."""
    size: int
    """Bytes of the buffer."""
    first_byte: int
    """Of the first such element, counted from the start of the buffer; may be negative."""
    width: int
    """Bytes of an element."""
    elements: int
    program: int
    """The first program that does it; linear number in the grid."""
    line: SourceLine | None
    """Of the kernel."""
    hit: str | None = None
    """Name of the instruction whose value the buffer assignment has in the bytes of the first element; empty where it has
    none there, or the bytes are not the program's. None where it is not known."""
    is_later: bool = False
    """It happens in a second execution on the same constants, and not in the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNumbers:
    """Observations of one kernel call while it ran in the schedule, summed up over all its launches."""

    kernel: str
    """The kernel's function name."""
    instruction: str
    """Name of the custom call in the optimized module."""
    launches: int
    checked: int = 0
    """Number of launches that were run again to find races: small ones, and the first few of a loop."""
    unwritten: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Output number to (elements that the kernel left unwritten, elements), where there are any, worst launch."""
    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """operand_number that is overwritten, or shares bytes with an output, to the relative difference of the results when the
    programs of the grid run in another order or on bytes that are not shared, where there is any."""
    operands: int = 0
    """Of the call; its outputs are counted on from here where buffers are."""
    order_difference: float = 0.0
    """Relative difference of the results when the programs of the grid run last to first; rounding of atomics aside, and
    what `racing` explains."""
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples from the launch with the largest such difference, or else of the race."""
    outside: tuple[OutsideAccess, ...] = ()
    line: SourceLine | None = None
    """The user's line that calls the kernel; None where the HLO does not say it."""
    unwritten_later: tuple[int, ...] = ()
    """Numbers of the outputs in `unwritten` that are written in the first execution, and not in a second one on the same
    constants."""
    old_reads: tuple[UnwrittenRead, ...] = ()
    order_tried: OrderTried = OrderTried.NONE
    """The order of the launch in which the largest difference showed."""
    reached_by_order: tuple[str, ...] | None = None
    """Names of the outputs of the program that differ when this call's programs run in that order; None: not tried."""
    reached_by_garbage: tuple[str, ...] | None = None
    """Names of the outputs that differ when something else stands in this call's outputs before it runs; None: not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLoop:
    """A loop of which a replay ran the first iterations alone, alike in the program and in its schedule."""

    instruction: str
    """Name of the `while` in the program as written."""
    line: SourceLine | None
    """The user's; None where the HLO does not say it."""
    ran: int
    iterations: int
    """Of the whole loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChange:
    """One output that another legal order of the schedule changes."""

    order: str
    """The order that changes it most, such as `kernels last (1)`."""
    error: float
    """Relative to the norm of what the schedule's own order gives; NaN where one of the two is not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNumbers:
    """What became of the outputs when the schedule was run in other legal orders."""

    tried: int = 0
    """Distinct orders, beside the schedule's own; none if the schedule has no kernel."""
    changed: Mapping[str, OrderChange] = field(default_factory=dict[str, OrderChange])
    """Output name to the change, beyond what rounding explains."""
    left_out: int = 0
    """Orders for which there was no time."""
    not_covered: str = ""
    """Why no order was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The numbers of one artifact, without a GPU."""

    state: ReplayState
    reason: str = ""
    """One line; when the state is done, why outputs are undecided, such as what made the first NaN, else empty."""
    outputs: Mapping[str, OutputNumbers] = field(default_factory=dict[str, OutputNumbers])
    """Output name to its numbers, in the program's order."""
    reference: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the relative error of program order against the case's own reference; empty without one."""
    reference_tolerance: Mapping[str, float] = field(default_factory=dict[str, float])
    rounded: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the relative error of program order against itself without what a workaround adds to a kernel's operand
    and subtracts again; empty where there is no such workaround."""
    changed_inputs: Mapping[str, float] = field(default_factory=dict[str, float])
    """Name of an argument that was not donated and whose bytes were overwritten, to the share of its elements that
    changed."""
    second_run: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to its relative error in a second execution on the same constants, where it differs from the first."""
    launches: tuple[LaunchNumbers, ...] = ()
    unreached: tuple[str, ...] = ()
    """Names of the schedule's instructions that these numbers do not put to the test: in branches and loops that the
    arguments do not enter, and what computes nothing but largest elements, which a softmax subtracts."""
    cut: tuple[CutLoop, ...] = ()
    """Loops that were cut short, the dearest first: the whole is estimated above the bounds. The numbers are those of the
    shortened program: they show what is wrong in it, and never that nothing is wrong later."""
    orders: OrderNumbers | None = None
    """None where no other orders were asked for."""
    seconds: float = 0.0
    estimated_seconds: float = 0.0
    estimated_bytes: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOutput:
    """One output as the hardware computed it."""

    errors: tuple[float, ...]
    """Per draw of inputs: ||device - intended|| / ||intended||; NaN when either is not finite."""
    attribution: Attribution
    """Worst over the draws."""
    tolerance: float
    """Relative error up to which two results of this output count as equal on this hardware."""
    distance: float = 0.0
    """Least over the draws of ||stale - intended|| / ||intended||: how well the numbers can tell."""
    replay_error: float | None = None
    """||replay - device|| / ||device||: the device's own artifact replayed on the same inputs; None when not replayed."""
    unsteady: float = 0.0
    """Largest relative difference between two runs of one draw; 0 when all were equal bit for bit."""


PROGRAM_ORDER = "program order"
"""The source of the intended result where the program was replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRun:
    """One case on real hardware."""

    device: str
    """Such as `NVIDIA H200`."""
    count: int
    """Devices that took part."""
    runs: int
    """Executions per draw of inputs."""
    outputs: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output name to the static verdict on the device's own artifact."""
    not_covered: tuple[str, ...] = ()
    """Limits of those verdicts, one line each."""
    intended_from: str = ""
    """The source of the intended result: PROGRAM_ORDER, or `reference` and why."""
    artifact: str = ""
    """Directory of the device's own artifact."""
    milliseconds: float | None = None
    """Median time of one execution, from the call until every output is ready, on arguments that lie on the device."""
    timed_runs: int = 0
    """Executions that this is the median of; the device has run the program before them."""
    error: str = ""
    """One line, if the case could not be run or there is no intended result to compare with."""
    died: bool = False
    """The device run crashed or timed out; if false, the machine is too small for it."""
