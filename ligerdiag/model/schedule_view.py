"""Views of a schedule: the neighbourhoods of hidden writes, and the mutated buffers with the paths to the outputs.

A neighbourhood says which instructions read the overwritten value, on which side of the kernel and from which bytes. It
leaves out names and ids, which differ between compiles, and keeps everything that decides a verdict: two equal
neighbourhoods are equally right. `analysis.explain.neighbours` computes it, and `analysis.explain.drift` compares two.

A `ScheduleView` holds the data of the HTML report: the mutated buffers (those that a kernel overwrites), their readers and
the path to each output. These are a few hundred instructions at most; `text` has the whole module.
`analysis.explain.view_builder` computes it from the program as written and from its schedule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.memory_limits import MemoryFigures


class ReadTime(StrEnum):
    """The time at which a reader reads the overwritten value: before or after the kernel runs."""

    BEFORE = "before"
    """The read ends before the kernel runs."""
    AFTER = "after"
    ACROSS = "across"
    """The read starts before the kernel and ends after it."""


class Origin(StrEnum):
    """The bytes from which a reader gets the value that a kernel overwrites.

    They are the overwritten bytes, or the bytes from which they were copied. There are none if the value is computed
    again.
    """

    VALUE = "value"
    """The reader gets the value from the overwritten bytes themselves."""
    SOURCE = "source"
    """The reader gets the value from other bytes, from which the overwritten bytes were copied."""
    RECOMPUTED = "nowhere"
    """The reader does not get the value from any bytes: the compiler computes it again, or uses a value from which it
    was computed.
    """


class Fate(StrEnum):
    """Whether the schedule performs a kernel call of the program, or for example lacks the call."""

    PERFORMED = "performed"
    GONE = "gone"
    """The schedule does not have the call."""
    UNPLACED = "unplaced"
    """The schedule has the call, but the time of its write is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An operation that reads the value which a kernel overwrites.

    If the operation is part of a fusion, this is the fused operation and not the fusion.
    """

    opcode: str
    """XLA's name of the operation."""
    op_name: str
    """JAX's name stack, without tags; empty if the compiler made the operation."""
    source: SourceLine | None
    """The user's line that the operation comes from; None if unknown."""
    side: ReadTime
    origin: Origin
    within: str | None = None
    """The scheduled instruction that contains the operation, such as `fusion of 7 operations`. Empty if the operation
    is a scheduled instruction itself; None if this was not recorded.
    """

    @property
    def primitive(self) -> str:
        """Returns JAX's name of the operation, or XLA's name if JAX has none."""
        return self.op_name.rpartition("/")[2] or self.opcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """One operand that one kernel call overwrites, with the instructions that read its value.

    It says of each read when it happens, and from which bytes.
    """

    kernel: str
    """The kernel's function name."""
    operand: int
    """0-based number of the operand of the custom call."""
    number: int
    """1-based number of the call among the calls of the same kernel with the same operand, in program order."""
    fate: Fate
    source: SourceLine | None = None
    """The user's line that calls the kernel."""
    shape: str = ""
    """Shape of the operand on one device, such as `f32[64,32]`."""
    size: int = 0
    """Bytes of the operand in the buffer assignment; 0 if unknown."""
    readers: tuple[Reader, ...] = ()
    """The readers of the value, in the order of the schedule."""
    copied_by: tuple[str, ...] = ()
    """Opcodes of the operations, such as `all-gather`, that copy the value to the bytes that the kernel overwrites."""
    shares: tuple[str, ...] = ()
    """Phrases for the kinds of other values, such as `a constant`, that XLA keeps in the operand's bytes; sorted."""

    @property
    def title(self) -> str:
        """Returns a title such as "`ce_kernel` operand 0".

        The title also has the number of the call if it is not the first call of this kernel.
        """
        return f"`{self.kernel}` operand {self.operand}" + (f", call {self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """One kernel call of a schedule, and the operands that it overwrites."""

    kernel: str
    """The kernel's function name."""
    hidden: tuple[int, ...] = ()
    """Numbers of the operands that the call overwrites, surely or perhaps, and that no output aliases."""
    declared: tuple[int, ...] = ()
    """Numbers of the operands that an output of the call aliases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """The verdicts, neighbourhoods and memory of a schedule, in a form in which two compiles can be compared.

    Names and ids of instructions are left out, because they differ between compiles.
    """

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Maps each output name to its verdict, in the program's order."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """The neighbourhood of each hidden write, in program order."""
    memory: MemoryFigures | None = None
    """The memory that the program needs; None if unknown, or in a baseline of an older ligerdiag."""
    kernel_calls: tuple[CallState, ...] | None = None
    """The kernel calls of the schedule; None if unknown, as in a baseline."""


class Lane(StrEnum):
    """The kind of stream on which the device executes an instruction."""

    COMPUTE = "compute"
    """The main stream, which runs kernels."""
    COLLECTIVE = "collective"
    """A stream for an asynchronous collective, send or receive."""
    COPY = "copy"
    """A stream for an asynchronous copy."""


class AccessKind(StrEnum):
    """How an instruction accesses the bytes of a mutated buffer (one that a kernel overwrites)."""

    DEFINE = "define"
    """The instruction computes the value that the kernel overwrites later."""
    HIDDEN_WRITE = "hidden write"
    """The instruction overwrites the value without XLA's knowledge."""
    READ = "read"
    """The instruction reads the bytes or a copy of them, or computes the value again."""
    REUSE = "reuse"
    """The instruction puts another value into the same bytes."""


class ReadKind(StrEnum):
    """Whether a read of an overwritten value gets the version that the program intends.

    Accesses that are no reads (`AccessKind`) have the kind NONE.
    """

    NONE = "none"
    FRESH = "fresh"
    """The read gets the kernel's result, as intended, in a forced order."""
    ORIGINAL = "original"
    """The read gets the value from before the kernel's write, as intended."""
    LATENT = "latent"
    """The read gets the intended version, but by luck: nothing forces the order."""
    STALE = "stale"
    """The read gets the value from before the kernel's write, where the kernel's result is intended."""
    CLOBBERED = "clobbered"
    """The read gets the kernel's result, where the value from before the write is intended."""
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
"""All kinds of read from good to bad; if several apply to one read, the worst counts."""


class Place(StrEnum):
    """The place from which a read gets the value that a kernel overwrites, as the HTML report shows it.

    The member COPY covers more than `Origin.SOURCE`: it also means copies that were made of the overwritten bytes.
    """

    SAME_BYTES = "same bytes"
    COPY = "copy"
    """The read finds the value in other bytes than those that the kernel overwrites: in the source from which the
    overwritten bytes were copied, gathered or cast, or in a copy of the overwritten bytes.
    """
    RECOMPUTED = "computed again"
    """The value is in no bytes: the instruction computes it again, or the origin of the value is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAccess:
    """One access by one instruction to one mutated buffer (one that a kernel overwrites)."""

    buffer: int
    """Index of the buffer in `ScheduleView.buffers`."""
    step: int
    """Id of the accessing instruction, one of `ScheduleView.steps`."""
    kind: AccessKind
    read: ReadKind = ReadKind.NONE
    place: Place = Place.SAME_BYTES
    outputs: tuple[str, ...] = ()
    """Names of the outputs that the read reaches. For a wrong read, only the outputs that it makes wrong; for a read
    that is right by luck, only those that it makes right by luck.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedBuffer:
    """The bytes that one kernel call overwrites through one operand."""

    kernel: str
    """The kernel's function name."""
    operand: int
    """0-based number of the operand of the custom call."""
    value: str
    """Name of the instruction whose value is overwritten, with its `%`; a ShapeIndex in braces follows if the value is
    a part of a tuple.
    """
    shape: str
    """Shape of the value on one device, such as `f32[64,32]`."""
    size: int
    """Size of the buffer in bytes; 0 if unknown."""
    allocation: int | None
    """Index of the BufferAllocation that holds the buffer; None if the buffer assignment is unknown."""
    offset: int
    """Bytes from the start of the allocation to the buffer."""
    is_performed: bool
    """Whether the schedule has the call and the time of its write is known."""
    unknown: bool
    """True if it is unknown whether the kernel writes the buffer at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """One scheduled instruction in the form in which the HTML report shows it."""

    id: int
    """Id of the instruction in the module."""
    name: str
    """The instruction's name, with its `%`."""
    opcode: str
    shape: str
    text: str
    """The instruction as a line of HLO text, without metadata and backend config."""
    fused: tuple[str, ...] = ()
    """Lines of the fused computation, if the instruction is a fusion; else empty."""
    start: int
    """LogicalTime (0-based number of the instruction in the whole schedule) at which the instruction starts: in a loop,
    that of its first iteration; for a `while`, that of the first instruction that the loop runs.
    """
    end: int
    """LogicalTime at which the instruction has finished: for an asynchronous operation, the time of its `-done`; for a
    `while`, the time of the `while` itself, which comes after its body; for all others, `start`.
    """
    lane: Lane = Lane.COMPUTE
    loops: tuple[int, ...] = ()
    """Ids of the `while` instructions around the instruction, outermost first; each is a step as well."""
    op_name: str = ""
    """JAX's name stack, without tags."""
    source: SourceLine | None = None
    """The user's line that the instruction comes from; None if unknown."""
    operands: tuple[int, ...] = ()
    """Ids of the steps whose values the instruction uses. For a `while`, these are the steps that compute its operand
    and the result of its body. A step of the body that uses a value carried by the loop has the `while` as an operand.
    """
    is_kernel: bool = False
    """Whether the instruction is a custom call that overwrites an operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEdge:
    """An edge of the program, from a kernel to a reader of its result, that is missing in the schedule."""

    buffer: int
    kernel: int
    """Id of the step that overwrites the value."""
    reader: int
    """Id of the step that reads another version instead of the kernel's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """One output of the program, with its verdict and a path to it.

    The path has the steps (scheduled instructions) from a kernel or from a wrong read to the output.
    """

    name: str
    verdict: Verdict
    path: tuple[int, ...] = ()
    """Ids of the steps from a kernel, or from the wrong reader, to the value of the output, in the order of the
    dataflow.

    Each step is an operand of the next one, or is a kernel whose overwritten operand the next one reads. A `while` may
    occur several times: where the path enters the loop, continues in the next iteration, and leaves the loop.
    """
    missing: tuple[MissingEdge, ...] = ()
    sentence: str = ""
    """One line without HLO: the values that the output is computed from, and what is wrong with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueBytes:
    """The bytes in which XLA's buffer assignment keeps a value that an instruction defines."""

    index: str
    """ShapeIndex of the value in the instruction's shape, such as `{1}`; empty if the shape is no tuple."""
    allocation: int
    """Index of the BufferAllocation."""
    offset: int
    """Bytes from the start of the allocation."""
    size: int
    """Number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One module with its hidden writes, in the form in which the HTML report shows it."""

    module: str
    instructions: int
    """Number of instructions of the whole module, fused ones included."""
    length: int
    """Number of LogicalTimes (positions in the flattened schedule)."""
    buffers: tuple[MutatedBuffer, ...] = ()
    """The mutated buffers, one for each hidden write, in program order."""
    accesses: tuple[BufferAccess, ...] = ()
    """The accesses to all mutated buffers, in the order of their steps."""
    steps: tuple[ScheduleStep, ...] = ()
    """The instructions of the neighbourhoods, sorted by the LogicalTime of their start; a loop precedes its body."""
    outputs: tuple[OutputView, ...] = ()
    """The view of each output, in the program's order."""
    omitted: int = 0
    """Number of scheduled instructions that compute something but are no steps of the view."""
    text: tuple[str, ...] = ()
    """Lines of HLO text of the optimized module, without metadata: computation by computation, in schedule order."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(instruction id, index into `text`) of every step, for links from the step to its line."""
    places: Mapping[str, tuple[ValueBytes, ...]] = field(default_factory=dict[str, tuple[ValueBytes, ...]])
    """Maps the name of an instruction, without `%`, to the bytes of the values that it defines; empty without XLA's
    buffer assignment.
    """
    notes: tuple[str, ...] = ()
    """Limits of what the view shows, one line each."""
