"""Records of what ligerdiag says about a program: verdicts on its outputs, findings at places in the program, and results of
replays and device runs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding, never higher than the severity of its rule. `--fail-on` sets the lowest severity that fails
    a run.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def weight(self) -> int:
        """Returns a number that is larger the more severe the finding is: 0 for a note."""
        return (Severity.NOTE, Severity.WARNING, Severity.ERROR).index(self)


class Verdict(StrEnum):
    """How an output of the schedule relates to its intended value: right (FRESH, LATENT), wrong (STALE, CLOBBERED) or
    unknown. `analysis.verdict.comparison` has the exact definition.

    `VERDICT_ORDER` sorts verdicts from good to bad; of several that apply, the worst counts.
    """

    FRESH = "fresh"
    """The output is as intended, in an order that data or control dependences force."""
    LATENT = "latent"
    """The output is as intended in this schedule by luck: nothing forces the order."""
    UNKNOWN = "unknown"
    """The output could not be decided; never counts as clean."""
    CLOBBERED = "clobbered"
    """The output sees a hidden write that it should not see: a read needs the value from before the write."""
    STALE = "stale"
    """The output misses a hidden write that it should see, or also sees the contents from before that write."""

    @property
    def is_wrong(self) -> bool:
        """Returns whether a schedule with this verdict computes another value than the intended one."""
        return self in (Verdict.STALE, Verdict.CLOBBERED)

    @property
    def is_right(self) -> bool:
        """Returns whether a schedule with this verdict computes the intended value, either because something forces the
        order (FRESH) or by luck (LATENT).
        """
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
class SourceSpan:
    """The part of a source line that holds one expression, as Python's own positions give it."""

    column: int
    """0-based offset of the first byte of the expression in its line, in UTF-8."""
    end_line: int
    """1-based number of the line in which the expression ends."""
    end_column: int
    """0-based offset of the byte after the expression in that line, in UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A place in the user's program, from the HLO's source metadata."""

    file: str
    line: int
    """1-based number of the line; 0 if unknown. A negative number becomes 0."""
    function: str = ""
    span: SourceSpan | None = field(default=None, compare=False)
    """The expression in the line; None if only the line is known. Two places on one line are equal, and JSON leaves the
    span out.
    """

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
    """A rule that raised an exception on a module: a bug of ligerdiag, so it is unknown whether the rule would have
    found anything in the module.
    """

    rule: str
    """Id of the rule, such as `LD001`."""
    message: str
    """One line, in lower case and without a final stop, that names the rule and its error."""


class SuppressionKind(StrEnum):
    """The place where a suppression is written."""

    IN_CODE = "in code"
    """A comment on the line in the user's source."""
    CONFIG = "config"
    """An entry of `[tool.ligerdiag]` in the configuration file."""
    KNOWN = "known"
    """An entry of the file with known findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A statement of the user that allows a finding; the finding stays in the report."""

    kind: SuppressionKind
    reason: str
    where: str
    """`file:line` of the comment, or the configuration file and the number of the entry in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """A kernel call that overwrites an operand, and its place in the user's program."""

    line: SourceLine | None
    """The line that calls the kernel; None if unknown."""
    stores: tuple[SourceLine, ...] = ()
    """Lines of the kernel's source that write the operand; empty if the kernel's IR has no locations."""
    callers: tuple[SourceLine, ...] = ()
    """Lines of the functions that lead to `line`, innermost first; for a call in a backward pass, lines of the forward
    pass whose derivative it computes.
    """
    in_backward: bool = False
    """Whether the call belongs to the backward pass (the derivative) of the lines in `callers`."""
    number: int = 0
    """Number of the hidden write, which distinguishes several calls on one line."""
    target: str = ""
    """Target of the custom call, which depends on the version of jax-triton."""
    operands: int = 0
    """Number of operands of the custom call."""
    outputs: int = 0
    """Number of outputs of the custom call."""
    is_declared: bool = False
    """Whether an output of the call already aliases the overwritten operand."""
    written: tuple[int, ...] = ()
    """Numbers of all operands that the call overwrites without XLA's knowledge. They count arrays only: a scalar that is
    passed to the kernel is no operand of the custom call.
    """
    parameters: tuple[str, ...] = ()
    """Names of the kernel's parameters that get the operands in `written`, in the same order; empty where unknown."""
    kernel: str = ""
    """The kernel's function name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlace:
    """The place of a read in the user's program."""

    line: SourceLine | None
    """The line that reads; None if the HLO has no location."""
    in_backward: bool = False
    """Whether the read belongs to the backward pass (the derivative) of `line`."""
    needs_old: bool = False
    """Whether the read needs the contents from before the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One hazard: a fact, its place, the evidence and one remedy (see docs/rules/)."""

    rule: str
    """Id of the rule, such as `LD001`."""
    severity: Severity
    message: str
    """The hazard in one line, in lower case and without a final stop, with names in backticks."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs that the hazard reaches; empty if it reaches none or is about the call itself."""
    source: SourceLine | None = None
    """The user's line that the rule is about; for a hidden write, the line of the kernel call."""
    kernel: str = ""
    """The kernel's function name."""
    operand: int | None = None
    """0-based number of the overwritten operand of the custom call."""
    instructions: tuple[str, ...] = ()
    """Names of the instructions of the optimized module that the hazard involves, the custom call first."""
    evidence: tuple[tuple[str, str], ...] = ()
    """Pairs (label, sentence), such as ("write", "%call overwrites operand 0, %fusion, at logical time 14")."""
    help: str = ""
    """The remedy: one clause that says how to remove the hazard."""
    suppressed: Suppression | None = None
    """The suppression that allows the finding; None if the finding is not allowed."""
    call: CallPlace | None = None
    """The kernel call that overwrites the operand; None if the finding is about no call."""
    reader: ReadPlace | None = None
    """The place that reads the value; None if the finding is about no read."""
    decided: tuple[str, ...] = ()
    """Names of the outputs that the hazard reaches only through decisions, such as the predicate of a branch: on some
    inputs the decision, and so the output, is right nevertheless.
    """
    lost_writes: tuple[int, ...] = ()
    """For a finding about a call that the schedule lacks: numbers (as `CallPlace.number`) of the hidden writes that the
    call would make. A finding about a read that misses one of these writes follows from this finding.
    """
    parts: tuple["Finding", ...] = ()
    """The findings with one common cause that this finding represents (see `report.causes`); empty for a single
    finding.
    """
    follows_from: "Finding | None" = None
    """The finding of which this finding is a consequence, as `report.consequences` decides; None if this finding is no
    consequence of another one.
    """


class Attribution(StrEnum):
    """How the numbers computed for an output compare with the intended numbers and with the stale numbers. Stale numbers are
    those of a run in which no instruction sees a hidden write.
    """

    FRESH = "fresh"
    """The numbers equal the intended ones, up to rounding."""
    STALE = "stale"
    """The numbers equal the stale ones, and not the intended ones."""
    PARTLY_STALE = "partly stale"
    """Some rows have the intended numbers, all others the stale ones."""
    LOSSY = "lossy"
    """The numbers are nearer to the intended ones than to the stale ones, but further from the intended ones than
    rounding explains.
    """
    NEITHER = "neither"
    """The numbers are neither the intended ones nor the stale ones."""
    UNDECIDED = "undecided"
    """The numbers decide nothing: the intended and the stale ones are equal, or the intended ones are not finite, or
    their rounding errors are as large as the difference.
    """

    @property
    def is_wrong(self) -> bool:
        """Returns whether numbers with this attribution differ from the intended ones by more than precision explains."""
        return self in (Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER)


FAR = 0.5
"""Smallest relative error at which a result counts as a different value; a smaller error counts as rounding."""


class ReplayState(StrEnum):
    """How far the replay of a case got."""

    DONE = "done"
    TOO_LARGE = "too large"
    """The replay is estimated to exceed the bounds on seconds or bytes; `--full` runs it anyway."""
    NOT_COVERED = "not covered"
    """The program has an operation or a feature that replay does not compute; `reason` names it."""
    FAILED = "failed"
    """The worker died, took too long or could not run the case's function; `reason` says which."""
    NOT_ASKED = "not asked"
    NOT_DONE = "not done"
    """The run was ended before this replay began, or a dump lacks data that a replay needs; `reason` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstElement:
    """The element in which an output differs most from its intended value. If several elements are not finite, this is
    the first of them.
    """

    dtype: str
    """Name of the output's dtype as NumPy has it, such as `bfloat16`."""
    shape: tuple[int, ...]
    """Shape of the output."""
    index: tuple[int, ...]
    intended: float
    actual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNumbers:
    """How the numbers of one output compare with the intended numbers and with the stale numbers. Stale numbers are those of
    a run in which no instruction sees a hidden write.
    """

    attribution: Attribution
    error: float
    """||actual - intended|| / ||intended||, computed in f64; NaN when either is not finite."""
    stale_error: float
    """||actual - stale|| / ||stale||."""
    distance: float
    """||stale - intended|| / ||intended||, which says how clearly the numbers distinguish stale from intended."""
    tolerance: float
    """Relative error up to which two results of the output count as equal."""
    rows_fresh: int = 0
    """Number of rows (indices of the first dimension; a scalar is one row) whose numbers equal the intended ones."""
    rows_stale: int = 0
    """Number of rows whose numbers equal the stale ones and not the intended ones."""
    rows: int = 0
    """Number of all rows; 0 if the user did not request a comparison of single rows."""
    nan_as_stale: bool = False
    """Whether the intended numbers are finite and the output has NaN in exactly those elements in which the stale
    numbers have NaN.
    """
    worst: WorstElement | None = None
    """The element that differs most; None if the output is fresh, is undecided or has complex numbers."""


def mark_undecided(outputs: Mapping[str, OutputNumbers], names: Collection[str]) -> Mapping[str, OutputNumbers]:
    """Returns the numbers of a replay's outputs, in which the attribution of each output in `names` is changed to undecided.
    The intended values of these outputs are unknown, because their values in program order need not be the intended ones.
    """
    return {
        name: replace(one, attribution=Attribution.UNDECIDED) if name in names else one for name, one in outputs.items()
    }


class MemoryOperation(StrEnum):
    """The way in which an operation of a kernel accesses memory."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMeeting:
    """Bytes that one program of a kernel's grid writes and that another program of the grid reads or writes.

    Two atomic accesses to the same bytes count only if their order changes a result.
    """

    buffer: int
    """Number of the buffer through which the writer accesses the bytes: the call's operands are counted first, then its
    outputs.
    """
    other_buffer: int
    """Number of the buffer through which the other program accesses the bytes, counted as for `buffer`."""
    writer: int
    other: int
    """Linear number, in the grid, of the program that makes the other access; `writer` is the number of the program
    that writes. Linear numbers count the programs of the grid with x changing fastest.
    """
    other_writes: bool
    first_byte: int
    """Place of the first byte that both programs access, in bytes from the start of `buffer`."""
    bytes: int
    line: SourceLine | None
    """The line in the kernel that writes; None if unknown."""
    other_line: SourceLine | None
    are_atomic: bool = False
    """Whether both accesses are atomic operations whose order matters: a returned value is used, or the last value
    stays.
    """


class OrderTried(StrEnum):
    """The way in which a launch was run again, to see whether the order of the programs of its grid matters."""

    NONE = "none"
    BACKWARD = "backward"
    """The programs run one after the other, from the last to the first."""
    TOGETHER = "together"
    """All programs run at the same time, operation by operation."""
    CROSSED = "crossed"
    """All programs run at the same time, and where several store to the same bytes, the store of the first program
    comes last.
    """
    APART = "apart"
    """The programs run in order, and each output has bytes of its own, shared with no operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenRead:
    """Bytes of an output that a kernel reads before any program of the launch has written them, both when the programs run
    from first to last and when they run in reverse.
    """

    output: int
    """Number of the output that the kernel reads, counted from 0 among the outputs of the call."""
    bytes: int
    size: int
    """Size of the output in bytes."""
    is_atomic: bool
    """Whether the first read of unwritten bytes belongs to an atomic operation."""
    program: int
    """Linear number in the grid of the first program that reads unwritten bytes."""
    first_byte: int
    line: SourceLine | None
    """The kernel's line that reads; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAccess:
    """Elements outside of a buffer that one operation of a kernel accesses, counted in the launch that accesses the most of
    them.

    The replay loads zeros from these places and drops stores to them.
    """

    kind: MemoryOperation
    buffer: int | None
    """Number of the buffer: the call's operands are counted first, then its outputs; None if the pointer belongs to no
    buffer.
    """
    size: int
    """Size of the buffer in bytes."""
    first_byte: int
    """Place of the first element outside of the buffer, in bytes from the start of the buffer; may be negative."""
    width: int
    """Size of one element in bytes."""
    elements: int
    program: int
    """Linear number in the grid of the first program that accesses elements outside of the buffer."""
    line: SourceLine | None
    """The kernel's line that accesses the elements; None if unknown."""
    hit: str | None = None
    """Name of the instruction whose value lies, by the buffer assignment, at the place of the first element outside.
    Empty if no value lies there or the place is outside of the program's memory; None if unknown.
    """
    is_later: bool = False
    """Whether the access happens only when the replay executes the schedule a second time, with the constants as the
    first execution left them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNumbers:
    """The replay's observations of one kernel call of the schedule, over all of the call's launches."""

    kernel: str
    """The kernel's function name."""
    instruction: str
    """Name of the custom call in the optimized module."""
    launches: int
    checked: int = 0
    """Number of launches that the replay ran again to find races: small launches, and the first few of a loop."""
    unwritten: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Maps the number of an output to (unwritten elements, all elements) in the launch that leaves most of them
    unwritten; only outputs with unwritten elements are listed.
    """
    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """Relative differences between the results of the launch and those of a run in which the programs of the grid run
    in another order, or on bytes that are not shared. The keys are the numbers of the operands that are overwritten or
    share bytes with an output.
    """
    operands: int = 0
    """Number of operands of the call; buffers are numbered consecutively, these operands first, then the call's
    outputs.
    """
    order_difference: float = 0.0
    """Relative difference of the results when the programs of the grid run from last to first, not counting the
    rounding of atomics and the differences in `racing`.
    """
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples of bytes that one program of the grid writes and another program of the grid accesses. They are from the
    launch with the largest `order_difference`; if no launch has such a difference, from the launch with the race.
    """
    outside: tuple[OutsideAccess, ...] = ()
    line: SourceLine | None = None
    """The user's line that calls the kernel; None if the HLO has no location."""
    unwritten_later: tuple[int, ...] = ()
    """Numbers of those outputs in `unwritten` that the call writes fully in the first execution of the program, but not
    in the second. The second execution starts with the constants that the first one has overwritten.
    """
    old_reads: tuple[UnwrittenRead, ...] = ()
    order_tried: OrderTried = OrderTried.NONE
    """Of the ways in which the launch was run again, the way whose results differ most from the first run's."""
    reached_by_order: tuple[str, ...] | None = None
    """Names of the program's outputs that differ if the programs of this call's grid run in the order `order_tried`;
    None if no such run was made.
    """
    reached_by_garbage: tuple[str, ...] | None = None
    """Names of the program's outputs that differ if the outputs of this call hold other bytes before the call runs;
    None if no such run was made.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLoop:
    """A loop of which a replay ran only the first iterations, in the program and in its schedule."""

    instruction: str
    """Name of the `while` in the program as written."""
    line: SourceLine | None
    """The user's line that makes the loop; None if the HLO has no location."""
    ran: int
    iterations: int
    """Number of iterations of the whole loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChange:
    """How much one output changes if the schedule runs in another legal order (one that its dependences allow)."""

    order: str
    """Name of the order that changes the output most, such as `kernels last (1)`."""
    error: float
    """Relative difference from the result in the schedule's own order; NaN if either result is not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNumbers:
    """How the results change if the instructions of the schedule run in another legal order, one that the schedule's
    dependences allow.
    """

    tried: int = 0
    """Number of other orders that were tried; 0 if the schedule has no kernel."""
    changed: Mapping[str, OrderChange] = field(default_factory=dict[str, OrderChange])
    """Maps an output name to the largest change of the output. Outputs whose change can be rounding are left out."""
    left_out: int = 0
    """Number of orders that were not tried for lack of time."""
    not_covered: str = ""
    """The reason why no other order was tried; empty if at least one other order was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueReplay:
    """The result of replaying one artifact in f64 with opaque functions in place of its custom calls. These functions read
    and write the same buffers as the calls, without the calls' code.
    """

    state: ReplayState
    reason: str = ""
    """One line that says why the replay was not done or, if it was done, why outputs are undecided; else empty."""
    outputs: Mapping[str, OutputNumbers] = field(default_factory=dict[str, OutputNumbers])
    """Maps each output name to the comparison of its numbers, in the program's order."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels, or targets of the custom calls, that opaque functions replaced, each once."""
    unreached: tuple[str, ...] = ()
    """As in `Replay`."""
    cut: tuple[CutLoop, ...] = ()
    """As in `Replay`."""
    seconds: float = 0.0
    estimated_seconds: float = 0.0
    estimated_bytes: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of replaying one artifact: computing its program and its schedule on the CPU, and comparing the
    outputs.
    """

    state: ReplayState
    reason: str = ""
    """One line that says why the replay was not done or, if it was done, why outputs are undecided (such as the source of
    the first NaN); else empty.
    """
    outputs: Mapping[str, OutputNumbers] = field(default_factory=dict[str, OutputNumbers])
    """Maps each output name to the comparison of its numbers, in the program's order."""
    reference: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps each output name to the relative error of the output in program order (the program's operations run in the order
    in which they are written), measured against the case's own reference function; empty if the case has none.
    """
    reference_tolerance: Mapping[str, float] = field(default_factory=dict[str, float])
    rounded: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps each output name to the relative error that a workaround causes by adding a value to the operand of a kernel and
    subtracting it again: the difference between the program's results with and without the workaround. Empty if the
    program has no such workaround.
    """
    changed_inputs: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps the name of each argument that was overwritten without being donated to the share of its elements that changed.
    """
    second_run: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps an output name to the relative difference between the output's values in two executions of the schedule. The
    second execution starts with the constants that the first one has overwritten. Only outputs whose difference is
    larger than rounding explains are listed.
    """
    launches: tuple[LaunchNumbers, ...] = ()
    unreached: tuple[str, ...] = ()
    """Names of instructions that the replayed numbers do not test: instructions in branches and loops that the replay
    does not enter, and instructions that only compute a maximum that a softmax subtracts.
    """
    cut: tuple[CutLoop, ...] = ()
    """Loops that were cut short because the whole replay is estimated above the bounds, the most expensive loop first.
    The numbers are then those of the shortened program: they show what is wrong in it, and never that later
    iterations are right.
    """
    orders: OrderNumbers | None = None
    """The results of running the schedule in other legal orders; None if these were not requested."""
    opaque: OpaqueReplay | None = None
    """The replay with opaque functions in place of custom calls; None if the user did not request it and `is_open` is false.
    """
    partial: Mapping[str, OutputNumbers] = field(default_factory=dict[str, OutputNumbers])
    """Numbers of outputs that see only some hidden writes, with a stale prediction of their own (`runs.partial_run`)."""
    seconds: float = 0.0
    estimated_seconds: float = 0.0
    estimated_bytes: int = 0
    cached: bool = False

    def is_open(self, verdicts: Mapping[str, Verdict]) -> bool:
        """Returns whether it is worth replaying with opaque functions, stand-ins for the custom calls. True if this replay
        does not cover an operation of the program, or if its numbers decide nothing about some output.

        verdicts: maps each output name to the verdict that holds after this replay. An output whose verdict is unknown
        does not count as undecided, because no numbers can decide about it.
        """
        if self.state is ReplayState.NOT_COVERED:
            return True
        return any(
            one.attribution is Attribution.UNDECIDED and verdicts.get(name) is not Verdict.UNKNOWN
            for name, one in self.outputs.items()
        )

    @property
    def deaths(self) -> tuple[str, ...]:
        """Returns the reason why this replay died, and the reason why the replay with opaque functions (stand-ins for the
        custom calls) died; leaves out a replay that did not die.
        """
        opaque = () if self.opaque is None or self.opaque.state is not ReplayState.FAILED else (self.opaque.reason,)
        own = (self.reason,) if self.state is ReplayState.FAILED else ()
        return (*own, *[f"with opaque functions: {reason}" for reason in opaque])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOutput:
    """The numbers of one output computed on a device, compared with the intended numbers and with the stale numbers. Stale
    numbers are those of a run in which no instruction sees a hidden write.
    """

    errors: tuple[float, ...]
    """||device - intended|| / ||intended|| for each set of random inputs; NaN if either is not finite."""
    attribution: Attribution
    """The worst attribution of the output over all sets of random inputs."""
    tolerance: float
    """Relative error up to which two results of the output count as equal on this device."""
    distance: float = 0.0
    """Smallest ||stale - intended|| / ||intended|| over all sets of random inputs, which says how clearly the
    numbers distinguish stale from intended.
    """
    replay_error: float | None = None
    """||replay - device|| / ||device||, where `replay` is the replay of the device's artifact on the same inputs; None
    if the device's artifact was not replayed.
    """
    unsteady: float = 0.0
    """Largest relative difference between two runs on the same inputs; 0 if all were equal bit for bit."""


PROGRAM_ORDER = "program order"
"""The value of `DeviceRun.intended_from` if replaying the program gave the intended result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRun:
    """The run of one case on a device, with the outputs compared."""

    device: str
    """Name of the device, such as `NVIDIA H200`."""
    count: int
    """Number of devices that the case ran on."""
    runs: int
    """Number of executions per set of random inputs."""
    outputs: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps each output name to the static analysis's verdict on the artifact that was compiled on the device."""
    not_covered: tuple[str, ...] = ()
    """One line for each part of the device's artifact that the static analysis does not cover, so that `verdicts` say
    nothing of it.
    """
    intended_from: str = ""
    """The source of the intended result: PROGRAM_ORDER, or `reference` (the case's own reference function) and the
    reason why the program was not replayed.
    """
    artifact: str = ""
    """Directory of the artifact that was compiled on the device."""
    milliseconds: float | None = None
    """Median time of one execution, from the call until every output is ready, with the arguments already on the
    device; None if not timed.
    """
    timed_runs: int = 0
    """Number of timed executions, of which `milliseconds` is the median; untimed executions ran before them."""
    error: str = ""
    """One line that says why the case could not be run or has no intended result; empty if it ran and has one."""
    died: bool = False
    """Whether the run crashed or timed out. If the case could not be run and this is false, the machine is too small
    for the case.
    """
