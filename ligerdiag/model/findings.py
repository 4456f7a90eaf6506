"""Records of what ligerdiag says about a program: verdicts of outputs, findings at places, results of numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """The weight of a finding, compared with `--fail-on`; at most that of its rule."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Verdict(StrEnum):
    """The relation of an output in the schedule to its intended value; `analysis.verdict.comparison` is the definition.

    `VERDICT_ORDER` sorts verdicts from good to bad; of several that apply, the worst counts.
    """

    FRESH = "fresh"
    """As intended, in an order that data or control dependences force."""
    LATENT = "latent"
    """As intended in this schedule by luck: nothing forces the order."""
    UNKNOWN = "unknown"
    """Could not be decided; never counts as clean."""
    CLOBBERED = "clobbered"
    """Sees a hidden write that it should not see: a read needs the value from before it."""
    STALE = "stale"
    """Misses a hidden write that it should see, or also sees the contents from before that write."""

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
    """1-based; 0 if unknown. A negative number becomes 0."""
    function: str = ""

    def __post_init__(self) -> None:
        if self.line < 0:
            object.__setattr__(self, "line", 0)

    @property
    def is_installed(self) -> bool:
        """Returns whether the file belongs to Python or an installed package, by its path alone.

        A dump comes from another machine, and JAX's files have the same names in a folder of `pip install --target`.
        """
        return self.file.startswith("<frozen ") or any(part in self.file for part in _INSTALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure:
    """A rule that raised on a module, which is a bug of ligerdiag: its findings there are unknown."""

    rule: str
    """Rule id."""
    message: str
    """One line, lower case, no final stop: the rule and its error."""


class SuppressionKind(StrEnum):
    """The place where a suppression is written."""

    IN_CODE = "in code"
    """A comment on the user's source line."""
    CONFIG = "config"
    """An entry of `[tool.ligerdiag]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A statement of the user that allows a finding; the finding stays in the report."""

    kind: SuppressionKind
    reason: str
    where: str
    """`file:line` of the comment, or file and number of the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """A kernel call that overwrites an operand, and its place in the user's program."""

    line: SourceLine | None
    """The line that calls the kernel; None if unknown."""
    stores: tuple[SourceLine, ...] = ()
    """The kernel's lines that write the operand; empty if its IR has no locations."""
    callers: tuple[SourceLine, ...] = ()
    """Callers of that line, innermost first; for a call in a backward pass, lines of the forward pass."""
    in_backward: bool = False
    """The call is in the backward pass of the lines in `callers`."""
    number: int = 0
    """Number of the hidden write; distinguishes several calls of one line."""
    target: str = ""
    """Target of the custom call, which depends on the version of jax-triton."""
    operands: int = 0
    """Number of operands of the custom call."""
    outputs: int = 0
    """Number of outputs of the custom call."""
    is_declared: bool = False
    """An output of the call already aliases the overwritten operand."""
    written: tuple[int, ...] = ()
    """All operands that the call overwrites without XLA's knowledge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlace:
    """The place of a read in the user's program."""

    line: SourceLine | None
    """None if the HLO has no location."""
    in_backward: bool = False
    """The read is in the backward pass of `line`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One hazard: a fact, its place, the evidence and one remedy (see docs/rules/)."""

    rule: str
    """Rule id, such as `LD001`."""
    severity: Severity
    message: str
    """One line, lower case, no final stop, names in backticks."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs that it reaches; empty if it reaches none or is about the call itself."""
    source: SourceLine | None = None
    """The user's line: for a hidden write that of the kernel call, else the one that the rule is about."""
    kernel: str = ""
    """The kernel's function name."""
    operand: int | None = None
    """0-based number of the overwritten operand of the custom call."""
    instructions: tuple[str, ...] = ()
    """Names of the instructions of the optimized module that are involved, the custom call first."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs such as ("write", "%call overwrites operand 0, %fusion, at logical time 14")."""
    help: str = ""
    """One remedy."""
    suppressed: Suppression | None = None
    """The suppression that allows it, if any."""
    call: CallPlace | None = None
    """The kernel call that overwrites the operand, if the finding is about one."""
    reader: ReadPlace | None = None
    """The reader, if the finding is about a read."""
    decided: tuple[str, ...] = ()
    """Names of the outputs that it reaches only by decisions, such as a predicate: some numbers make these right."""
    parts: tuple["Finding", ...] = ()
    """The findings that share this cause (see `report.causes`); empty for a single finding."""


class Attribution(StrEnum):
    """The explanation of the numbers of an output."""

    FRESH = "fresh"
    """Equal to the intended ones, up to rounding."""
    STALE = "stale"
    """Equal to the result of a run in which no instruction sees a hidden write."""
    PARTLY_STALE = "partly stale"
    """Some rows are as intended, the others stale."""
    LOSSY = "lossy"
    """Nearer to the intended ones than to the stale ones, and further away than rounding explains."""
    NEITHER = "neither"
    """Wrong, and not the stale ones."""
    UNDECIDED = "undecided"
    """Intended and stale numbers are equal, or the intended ones are not finite."""

    @property
    def is_wrong(self) -> bool:
        """Returns whether the numbers differ from the intended ones by more than precision."""
        return self in (Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER)


FAR = 0.5
"""Relative error from which on a result is a different one and not a rounded one."""


class ReplayState(StrEnum):
    """How far the replay of a case got."""

    DONE = "done"
    TOO_LARGE = "too large"
    """Estimated above the bounds on seconds or bytes; `--full` runs it."""
    NOT_COVERED = "not covered"
    """Has something that replay does not compute; `reason` names it."""
    FAILED = "failed"
    """The worker died, took too long or could not run the case's function; `reason` says which."""
    NOT_ASKED = "not asked"
    NOT_DONE = "not done"
    """The run was ended before its turn, or a dump lacks what a replay needs; `reason` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNumbers:
    """The numbers of one output, compared with the intended and the stale ones."""

    attribution: Attribution
    error: float
    """||actual - intended|| / ||intended||, in f64; NaN when either is not finite."""
    stale_error: float
    """||actual - stale|| / ||stale||."""
    distance: float
    """||stale - intended|| / ||intended||: how clearly the numbers distinguish the two."""
    tolerance: float
    """Relative error up to which two results of the output count as equal."""
    rows_fresh: int = 0
    """Rows (the first dimension; one for a scalar) that equal the intended ones."""
    rows_stale: int = 0
    """Rows that equal the stale ones and not the intended ones."""
    rows: int = 0
    """Rows in all; 0 if rows were not requested."""


class MemoryOperation(StrEnum):
    """The effect of an operation of a kernel on memory."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMeeting:
    """Bytes that one program of a grid writes and another one reads or writes.

    Two atomic accesses count only if their order changes a result.
    """

    buffer: int
    """Number of the writer's buffer among operands, then outputs, of the call."""
    other_buffer: int
    """Number of the buffer through which the other program accesses the bytes."""
    writer: int
    other: int
    """Linear program numbers in the grid; x changes fastest."""
    other_writes: bool
    first_byte: int
    """From the start of `buffer`."""
    bytes: int
    line: SourceLine | None
    """The kernel's line that writes."""
    other_line: SourceLine | None
    are_atomic: bool = False
    """Both are atomic operations whose order matters: a returned value is used, or the last value stays."""


class OrderTried(StrEnum):
    """How a launch was run again, to see whether the order of its programs matters."""

    NONE = "none"
    BACKWARD = "backward"
    """One after the other, from the last to the first."""
    TOGETHER = "together"
    """At the same time, operation by operation."""
    CROSSED = "crossed"
    """At the same time, and of the stores to the same bytes that of the first program comes last."""
    APART = "apart"
    """In order, with bytes for each output that no operand shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenRead:
    """Bytes of an output that a kernel reads and that no program of the launch has written before, in any order."""

    output: int
    """Number among the call's outputs."""
    bytes: int
    size: int
    """Bytes of the output."""
    is_atomic: bool
    """The first such read is that of an atomic operation."""
    program: int
    """Linear number in the grid of the first program that does it."""
    first_byte: int
    line: SourceLine | None
    """Of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAccess:
    """Elements outside of a buffer that one operation of a kernel accesses, in the launch with the most of them.

    Replay loads zeros there and drops stores.
    """

    kind: MemoryOperation
    buffer: int | None
    """Number among operands, then outputs, of the call; None if the pointer belongs to no buffer."""
    size: int
    """Bytes of the buffer."""
    first_byte: int
    """First byte of the first such element, from the start of the buffer; may be negative."""
    width: int
    """Bytes of an element."""
    elements: int
    program: int
    """Linear number in the grid of the first program that does it."""
    line: SourceLine | None
    """Of the kernel."""
    hit: str | None = None
    """Name of the instruction whose value is in the bytes of the first element by the buffer assignment.

    Empty if no value is there or the bytes are outside of the program's; None if unknown.
    """
    is_later: bool = False
    """Happens in a second execution on the same constants and not in the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNumbers:
    """Observations of one kernel call in the replayed schedule, over all of its launches."""

    kernel: str
    """The kernel's function name."""
    instruction: str
    """Name of the custom call in the optimized module."""
    launches: int
    checked: int = 0
    """Number of launches that were run again to find races: small ones and the first few of a loop."""
    unwritten: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Output number to (unwritten elements, elements) in the worst launch, for outputs with unwritten elements."""
    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """Number of an operand that is overwritten or shares bytes with an output, to the relative difference of the
    results when the programs of the grid run in another order or on bytes that are not shared."""
    operands: int = 0
    """Number of operands of the call; numbers of buffers continue from here with its outputs."""
    order_difference: float = 0.0
    """Relative difference of the results when the programs of the grid run from last to first, without the rounding of
    atomics and the differences in `racing`."""
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples from the launch with the largest such difference, else from the race."""
    outside: tuple[OutsideAccess, ...] = ()
    line: SourceLine | None = None
    """The user's line that calls the kernel; None if the HLO has no location."""
    unwritten_later: tuple[int, ...] = ()
    """Numbers of the outputs in `unwritten` that the first execution writes, and a second one on the same constants
    does not."""
    old_reads: tuple[UnwrittenRead, ...] = ()
    order_tried: OrderTried = OrderTried.NONE
    """The order with the largest difference."""
    reached_by_order: tuple[str, ...] | None = None
    """Names of the outputs of the program that differ if the programs of this call run in that order; None if not
    tried."""
    reached_by_garbage: tuple[str, ...] | None = None
    """Names of the outputs that differ if the outputs of this call hold other bytes before it runs; None if not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLoop:
    """A loop of which a replay ran only the first iterations, in the program and in its schedule."""

    instruction: str
    """Name of the `while` in the program as written."""
    line: SourceLine | None
    """The user's line; None if the HLO has no location."""
    ran: int
    iterations: int
    """Iterations of the whole loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChange:
    """The change of one output by another legal order of the schedule."""

    order: str
    """The order that changes it most, such as `kernels last (1)`."""
    error: float
    """Relative to the result in the schedule's own order; NaN if one of the two is not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNumbers:
    """The results of the schedule in other legal orders."""

    tried: int = 0
    """Number of orders besides the schedule's own; 0 if the schedule has no kernel."""
    changed: Mapping[str, OrderChange] = field(default_factory=dict[str, OrderChange])
    """Output name to a change that rounding does not explain."""
    left_out: int = 0
    """Number of orders for which there was no time."""
    not_covered: str = ""
    """Why no order was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The numbers of one artifact on the CPU."""

    state: ReplayState
    reason: str = ""
    """One line on why it was not done, or if it was, why outputs are undecided, such as the source of the first NaN."""
    outputs: Mapping[str, OutputNumbers] = field(default_factory=dict[str, OutputNumbers])
    """Output name to its numbers, in the program's order."""
    reference: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the relative error of program order against the case's own reference; empty without one."""
    reference_tolerance: Mapping[str, float] = field(default_factory=dict[str, float])
    rounded: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the relative error of program order against itself without a workaround that adds a value to the
    operand of a kernel and subtracts it again; empty without such a workaround."""
    changed_inputs: Mapping[str, float] = field(default_factory=dict[str, float])
    """Name of an overwritten argument that was not donated, to the share of its elements that changed."""
    second_run: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to its relative error in a second execution on the same constants, if that differs from the first."""
    launches: tuple[LaunchNumbers, ...] = ()
    unreached: tuple[str, ...] = ()
    """Names of instructions of the schedule that these numbers do not test: those in branches and loops that the
    arguments do not enter, and those that only compute a maximum that a softmax subtracts."""
    cut: tuple[CutLoop, ...] = ()
    """Loops that were cut short because the whole is estimated above the bounds, the most expensive first. The numbers
    are those of the shortened program: they show what is wrong in it, and never that later iterations are right."""
    orders: OrderNumbers | None = None
    """None if no other orders were requested."""
    seconds: float = 0.0
    estimated_seconds: float = 0.0
    estimated_bytes: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOutput:
    """The numbers of one output on a device."""

    errors: tuple[float, ...]
    """||device - intended|| / ||intended|| for each draw of inputs; NaN if either is not finite."""
    attribution: Attribution
    """Worst over the draws."""
    tolerance: float
    """Relative error up to which two results of the output count as equal on this device."""
    distance: float = 0.0
    """Least over the draws of ||stale - intended|| / ||intended||: how clearly the numbers distinguish the two."""
    replay_error: float | None = None
    """||replay - device|| / ||device||, for a replay of the device's artifact on the same inputs; None without one."""
    unsteady: float = 0.0
    """Largest relative difference between two runs of one draw; 0 if all were equal bit for bit."""


PROGRAM_ORDER = "program order"
"""`DeviceRun.intended_from` if the program was replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRun:
    """The run of one case on a device."""

    device: str
    """Such as `NVIDIA H200`."""
    count: int
    """Number of devices."""
    runs: int
    """Executions per draw of inputs."""
    outputs: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output name to the verdict on the device's own artifact."""
    not_covered: tuple[str, ...] = ()
    """Limits of those verdicts, one line each."""
    intended_from: str = ""
    """Source of the intended result: PROGRAM_ORDER, or `reference` and the reason."""
    artifact: str = ""
    """Directory of the device's own artifact."""
    milliseconds: float | None = None
    """Median time of one execution, from the call until every output is ready, with arguments on the device."""
    timed_runs: int = 0
    """Number of executions behind the median, after others that are not timed."""
    error: str = ""
    """One line, if the case could not be run or has no intended result."""
    died: bool = False
    """The run crashed or timed out; if false, the machine is too small for the case."""
