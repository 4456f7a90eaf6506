"""Views of a schedule, as a reader has to see it: the neighbourhood of each hidden write, the mutated buffers in time,
the ways to the outputs.

The neighbourhood of a hidden write: which instructions read the overwritten value, on which side of the kernel, from
which bytes.

Names and ids are left out: they differ from one compile to the next, and nothing depends on them. A neighbourhood keeps
what decides a verdict, so two equal neighbourhoods are equally right. `analysis.neighbours` computes it from a
schedule, `analysis.drift` compares two.

The parts of a schedule that a report shows: the mutated buffers over time, their readers, and the way to each
output.

`analysis.schedule_view` computes it from both programs, `report.html` draws it. It holds the neighbourhood of what kernels
overwrite (a few hundred instructions at most, whatever the size of the module) and, in `text`, the whole module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.model.findings import SourceLine, Verdict


class ReadTime(StrEnum):
    """The time of a read, before or after the kernel."""

    BEFORE = "before"
    """Before the kernel runs."""
    AFTER = "after"
    ACROSS = "across"
    """It starts before the kernel and is done after it."""


class Origin(StrEnum):
    """The bytes that a reader reads."""

    VALUE = "value"
    """The overwritten bytes themselves."""
    SOURCE = "source"
    """The value that the overwritten bytes are a copy of."""
    NOWHERE = "nowhere"
    """Neither: the compiler has it compute the value anew, or from what that was computed from."""


class Fate(StrEnum):
    """The fate of the kernel call in the schedule."""

    PERFORMED = "performed"
    GONE = "gone"
    """The schedule does not hold it."""
    UNPLACED = "unplaced"
    """The schedule holds it, and the place of its write is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An operation that reads the value; of a fusion, the fused operation that does."""

    opcode: str
    """XLA's name of the operation."""
    op_name: str
    """JAX's name stack, without tags; empty where the compiler made the operation."""
    source: SourceLine | None
    """The user's line."""
    side: ReadTime
    origin: Origin
    within: str | None = None
    """The scheduled instruction that holds it, such as `fusion of 7 operations`; empty when it stands alone, None when that
    was not recorded."""

    @property
    def primitive(self) -> str:
        """Returns JAX's name of the operation, or XLA's if there is none."""
        return self.op_name.rpartition("/")[2] or self.opcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Everything around one operand that one kernel call overwrites."""

    kernel: str
    """The kernel's function name."""
    operand: int
    """operand_number of the custom call, 0-based."""
    number: int
    """Its number among the calls with the same kernel and operand, in program order, 1-based."""
    fate: Fate
    source: SourceLine | None = None
    """The user's line that calls the kernel."""
    shape: str = ""
    """Of the operand in the schedule, such as `f32[64,32]`: what one device has of it."""
    size: int = 0
    """Bytes that the operand takes in the buffer assignment; 0 when not known."""
    readers: tuple[Reader, ...] = ()
    """In the order of the schedule."""
    copied_by: tuple[str, ...] = ()
    """Opcodes that lead from the value that was computed to the bytes that the kernel gets, such as `all-gather`."""
    shares: tuple[str, ...] = ()
    """Other values of the neighbourhood in the same bytes, one phrase each, sorted."""

    @property
    def title(self) -> str:
        """`ce_kernel` operand 0, with its number where it is not the first."""
        return f"`{self.kernel}` operand {self.operand}" + (f", call {self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """The facts of a schedule that matter for what its kernels overwrite, free of names and ids."""

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """In program order."""


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
    """It computes the value that the kernel overwrites later."""
    HIDDEN_WRITE = "hidden write"
    """The kernel overwrites it without XLA's knowledge."""
    READ = "read"
    """It reads the bytes, or what they are a copy of, or computes the value anew."""
    REUSE = "reuse"
    """XLA puts another value into the same bytes."""


class ReadKind(StrEnum):
    """The value that a read gets, compared with the value that its author means. Only READ accesses have a kind other
    than NONE."""

    NONE = "none"
    FRESH = "fresh"
    """The kernel's result, as meant, and the order is forced."""
    ORIGINAL = "original"
    """The bytes before the kernel's write, as meant."""
    LATENT = "latent"
    """The value that is meant, by luck."""
    STALE = "stale"
    """The bytes before the kernel's write, where its result is meant."""
    CLOBBERED = "clobbered"
    """The kernel's result, where the bytes before its write are meant."""
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
"""From good to bad; the worst counts where several apply."""


class Place(StrEnum):
    """The place where a read finds the value."""

    SAME_BYTES = "same bytes"
    COPY = "copy"
    """Other bytes: those that the overwritten ones were copied, gathered or cast from, or a copy of them."""
    COMPUTED_ANEW = "computed anew"
    """From neither: the instruction computes the value again from what it was computed from, or the origin of the value
    is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAccess:
    """One instruction and one mutated buffer."""

    buffer: int
    """Index into `ScheduleView.buffers`."""
    step: int
    """Instruction id, one of `ScheduleView.steps`."""
    kind: AccessKind
    read: ReadKind = ReadKind.NONE
    place: Place = Place.SAME_BYTES
    outputs: tuple[str, ...] = ()
    """Outputs of the program that this read reaches, for a wrong or lucky read: those that it makes wrong or lucky."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedBuffer:
    """The bytes that one kernel call overwrites through one operand."""

    kernel: str
    """The kernel's function name."""
    operand: int
    """operand_number of the custom call, 0-based."""
    value: str
    """Name of the instruction whose value is overwritten, with its `%`, and its ShapeIndex in braces where it has one."""
    shape: str
    """Such as `f32[64,32]`: what one device has of it."""
    size: int
    """Bytes; 0 when not known."""
    allocation: int | None
    """BufferAllocation index; None where there is no buffer assignment."""
    offset: int
    """Bytes from the start of the allocation."""
    is_performed: bool
    """The schedule holds the call, and the place of its write is known."""
    unknown: bool
    """Whether it could not be determined if the kernel writes it."""


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
    """Lines of the fused computation, where it is a fusion."""
    start: int
    """LogicalTime, in instructions of the whole schedule, 0-based; inside of a loop, that of its first iteration. Of a
    `while`, that of the first instruction that it runs."""
    end: int
    """LogicalTime when it is done: that of the `-done` of an asynchronous operation, of a `while` its own, else `start`."""
    lane: Lane = Lane.COMPUTE
    loops: tuple[int, ...] = ()
    """Ids of the `while` instructions around it, outermost first; each of them is a step, too."""
    op_name: str = ""
    """JAX's name stack, without tags."""
    source: SourceLine | None = None
    """The user's line."""
    operands: tuple[int, ...] = ()
    """Ids of steps whose values it uses; of a `while`, what it is given and what its body returns. A step of the body that
    uses what the loop carries has the `while` as an operand."""
    is_kernel: bool = False
    """A custom call that overwrites an operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEdge:
    """A way from a kernel to a reader that the author means and that the schedule does not have."""

    buffer: int
    kernel: int
    """Id of the step that overwrites."""
    reader: int
    """Id of the step that reads something else instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """How one output of the program is computed."""

    name: str
    verdict: Verdict
    path: tuple[int, ...] = ()
    """Ids of steps from a kernel, or from the wrong reader, to the output's value, in order; the dataflow that there is.

    Each is an operand of the next, or it is a kernel and the next reads what it overwrites. A `while` may be there more than
    once: where the way leads into the loop, from one iteration to the next, and out of it.
    """
    missing: tuple[MissingEdge, ...] = ()
    sentence: str = ""
    """One line for readers new to HLO: the values that this output is computed from, and what is wrong with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One module with its hidden writes."""

    module: str
    instructions: int
    """Of the whole module, fused ones included."""
    length: int
    """LogicalTimes of the whole schedule."""
    buffers: tuple[MutatedBuffer, ...] = ()
    """One for each hidden write, in program order."""
    accesses: tuple[BufferAccess, ...] = ()
    """In the order of their steps."""
    steps: tuple[ScheduleStep, ...] = ()
    """The neighbourhood, by LogicalTime of their start, what contains others before these."""
    outputs: tuple[OutputView, ...] = ()
    """In the program's order."""
    omitted: int = 0
    """Scheduled instructions that compute something and are no steps of this view."""
    text: tuple[str, ...] = ()
    """The whole optimized module as lines of HLO text (without metadata), computation by computation, in schedule order."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(instruction id, index into `text`) of every step."""
    notes: tuple[str, ...] = ()
    """What this view leaves out or cannot show, one line each."""
