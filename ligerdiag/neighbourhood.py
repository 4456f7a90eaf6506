"""The neighbourhood of a hidden write: which instructions read the overwritten value, on which side of the kernel, from
which bytes.

Names and ids are left out: they differ from one compile to the next, and nothing depends on them. A neighbourhood keeps
what decides a verdict, so two equal neighbourhoods are equally right. `analysis.neighbours` computes it from a
schedule, `analysis.drift` compares two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.findings import SourceLine, Verdict


class Side(StrEnum):
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
    side: Side
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
