"""Views of a schedule: the neighbourhoods of hidden writes, and the mutated buffers with the ways to the outputs.

A neighbourhood says which instructions read the overwritten value, on which side of the kernel and from which bytes. It
leaves out names and ids, which differ between compiles, and keeps everything that decides a verdict: two equal
neighbourhoods are equally right. `analysis.explain.neighbours` computes it, and `analysis.explain.drift` compares two.

A `ScheduleView` holds the data of the HTML report: the mutated buffers, their readers and the way to each output, a few
hundred instructions at most, and in `text` the whole module. `analysis.explain.view_builder` computes it from
both programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.memory_limits import MemoryFigures


class ReadTime(StrEnum):
    """The time of a read, before or after the kernel."""

    BEFORE = "before"
    """Before the kernel runs."""
    AFTER = "after"
    ACROSS = "across"
    """Starts before the kernel and ends after it."""


class Origin(StrEnum):
    """Where a reader gets the value from."""

    VALUE = "value"
    """The overwritten bytes themselves."""
    SOURCE = "source"
    """The bytes that the overwritten ones are a copy of."""
    RECOMPUTED = "nowhere"
    """Neither: the compiler computes the value again, or uses the value that it was computed from."""


class Fate(StrEnum):
    """The fate of the kernel call in the schedule."""

    PERFORMED = "performed"
    GONE = "gone"
    """The schedule does not have it."""
    UNPLACED = "unplaced"
    """The schedule has it, and the time of its write is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An operation that reads the value; in a fusion, the fused operation."""

    opcode: str
    """XLA's name of the operation."""
    op_name: str
    """JAX's name stack, without tags; empty if the compiler made the operation."""
    source: SourceLine | None
    """The user's line."""
    side: ReadTime
    origin: Origin
    within: str | None = None
    """The scheduled instruction that contains it, such as `fusion of 7 operations`; empty if none does, None if not
    recorded."""

    @property
    def primitive(self) -> str:
        """Returns JAX's name of the operation, or XLA's if there is none."""
        return self.op_name.rpartition("/")[2] or self.opcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The readers and the bytes of one operand that one kernel call overwrites."""

    kernel: str
    """The kernel's function name."""
    operand: int
    """0-based number of the operand of the custom call."""
    number: int
    """1-based number among the calls with the same kernel and operand, in program order."""
    fate: Fate
    source: SourceLine | None = None
    """The user's line that calls the kernel."""
    shape: str = ""
    """Shape of the operand on one device, such as `f32[64,32]`."""
    size: int = 0
    """Bytes of the operand in the buffer assignment; 0 if unknown."""
    readers: tuple[Reader, ...] = ()
    """In the order of the schedule."""
    copied_by: tuple[str, ...] = ()
    """Opcodes between the computed value and the bytes that the kernel gets, such as `all-gather`."""
    shares: tuple[str, ...] = ()
    """Other values of the neighbourhood in the same bytes, one phrase each, sorted."""

    @property
    def title(self) -> str:
        """Returns such as "`ce_kernel` operand 0", with the number of the call if it is not the first."""
        return f"`{self.kernel}` operand {self.operand}" + (f", call {self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """The verdicts, neighbourhoods and memory of a schedule, without names and ids of instructions."""

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """In program order."""
    memory: MemoryFigures | None = None
    """None if unknown, or in a baseline of an older ligerdiag."""


class Lane(StrEnum):
    """The unit of the device that executes an instruction."""

    COMPUTE = "compute"
    """The main stream."""
    COLLECTIVE = "collective"
    """A stream of an asynchronous collective or send/recv."""
    COPY = "copy"
    """A stream of an asynchronous copy."""


class AccessKind(StrEnum):
    """How an instruction accesses the bytes of a mutated buffer."""

    DEFINE = "define"
    """Computes the value that the kernel overwrites later."""
    HIDDEN_WRITE = "hidden write"
    """Overwrites it without XLA's knowledge."""
    READ = "read"
    """Reads the bytes or a copy of them, or computes the value again."""
    REUSE = "reuse"
    """Puts another value into the same bytes."""


class ReadKind(StrEnum):
    """The version that a read gets, compared with the intended one. Only accesses of kind READ have another kind than
    NONE."""

    NONE = "none"
    FRESH = "fresh"
    """The kernel's result, as intended, in a forced order."""
    ORIGINAL = "original"
    """The value from before the kernel's write, as intended."""
    LATENT = "latent"
    """The intended version, by luck."""
    STALE = "stale"
    """The value from before the kernel's write, where its result is intended."""
    CLOBBERED = "clobbered"
    """The kernel's result, where the value from before its write is intended."""
    UNKNOWN = "unknown"


READ_KIND_ORDER = (
    ReadKind.NONE,
    ReadKind.ORIGINAL,
    ReadKind.FRESH,
    ReadKind.LATENT,
    ReadKind.UNKNOWN,
    ReadKind.CLOBBERED,
    ReadKind.STALE,
)
"""From good to bad; of several that apply, the worst counts."""


class Place(StrEnum):
    """Where a read finds the value."""

    SAME_BYTES = "same bytes"
    COPY = "copy"
    """Other bytes: those that the overwritten ones were copied, gathered or cast from, or a copy of them."""
    RECOMPUTED = "computed again"
    """Neither: the instruction computes the value again, or the origin of the value is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAccess:
    """An access of one instruction to one mutated buffer."""

    buffer: int
    """Index into `ScheduleView.buffers`."""
    step: int
    """Instruction id, one of `ScheduleView.steps`."""
    kind: AccessKind
    read: ReadKind = ReadKind.NONE
    place: Place = Place.SAME_BYTES
    outputs: tuple[str, ...] = ()
    """Outputs that the read reaches; for a wrong or lucky read, those that it makes wrong or lucky."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedBuffer:
    """The bytes that one kernel call overwrites through one operand."""

    kernel: str
    """The kernel's function name."""
    operand: int
    """0-based number of the operand of the custom call."""
    value: str
    """Name of the instruction whose value is overwritten, with its `%`, and with a ShapeIndex in braces if it has one.
    """
    shape: str
    """Shape on one device, such as `f32[64,32]`."""
    size: int
    """In bytes; 0 if unknown."""
    allocation: int | None
    """Index of the BufferAllocation; None without a buffer assignment."""
    offset: int
    """Bytes from the start of the allocation."""
    is_performed: bool
    """The schedule has the call, and the time of its write is known."""
    unknown: bool
    """Whether the kernel writes it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """One scheduled instruction."""

    id: int
    """Instruction id in the module."""
    name: str
    """With its `%`."""
    opcode: str
    shape: str
    text: str
    """The instruction as a line of HLO text, without metadata and backend config."""
    fused: tuple[str, ...] = ()
    """Lines of the fused computation, if it is a fusion."""
    start: int
    """0-based LogicalTime in instructions of the whole schedule; in a loop, that of the first iteration. For a `while`,
    that of the first instruction that it runs."""
    end: int
    """LogicalTime of its end: for an asynchronous operation that of its `-done`, for a `while` its own, else `start`.
    """
    lane: Lane = Lane.COMPUTE
    loops: tuple[int, ...] = ()
    """Ids of the `while` instructions around it, outermost first; each is a step as well."""
    op_name: str = ""
    """JAX's name stack, without tags."""
    source: SourceLine | None = None
    """The user's line."""
    operands: tuple[int, ...] = ()
    """Ids of the steps whose values it uses; for a `while`, those of its operand and of the result of its body. A step
    of the body that uses a loop-carried value has the `while` as an operand."""
    is_kernel: bool = False
    """A custom call that overwrites an operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEdge:
    """An edge of the program from a kernel to a reader that the schedule lacks."""

    buffer: int
    kernel: int
    """Id of the step that overwrites."""
    reader: int
    """Id of the step that reads another version instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """The way to one output of the program."""

    name: str
    verdict: Verdict
    path: tuple[int, ...] = ()
    """Ids of the steps from a kernel, or from the wrong reader, to the value of the output, in the order of the
    dataflow.

    Each is an operand of the next, or a kernel whose overwritten operand the next one reads. A `while` may occur
    several times: where the way enters the loop, continues in the next iteration, and leaves the loop.
    """
    missing: tuple[MissingEdge, ...] = ()
    sentence: str = ""
    """One line without HLO: the values that the output is computed from, and what is wrong with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One module with its hidden writes."""

    module: str
    instructions: int
    """Number of instructions of the whole module, fused ones included."""
    length: int
    """Number of LogicalTimes of the schedule."""
    buffers: tuple[MutatedBuffer, ...] = ()
    """One for each hidden write, in program order."""
    accesses: tuple[BufferAccess, ...] = ()
    """In the order of their steps."""
    steps: tuple[ScheduleStep, ...] = ()
    """The instructions of the neighbourhoods, by the LogicalTime of their start; a loop precedes its body."""
    outputs: tuple[OutputView, ...] = ()
    """In the program's order."""
    omitted: int = 0
    """Number of scheduled instructions that compute something and are no steps of the view."""
    text: tuple[str, ...] = ()
    """Lines of HLO text of the optimized module, without metadata: computation by computation, in schedule order."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(instruction id, index into `text`) of every step."""
    notes: tuple[str, ...] = ()
    """Limits of the view, one line each."""
