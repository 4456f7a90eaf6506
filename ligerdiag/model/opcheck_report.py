"""Records of `ligerdiag.opcheck`: the observations from running one kernel call, the problems that follow from them, and the
report.

Operands and outputs are numbered as in the custom call. A run shows a lower bound of what a kernel does, for the operands
of that run; the kernel's code gives an upper bound, for all operands.
"""

from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.shown import Shown


class Seen(StrEnum):
    """Whether the runs of a call showed a certain effect on one of its buffers, such as that the kernel reads it."""

    YES = "yes"
    NO = "no"
    """The runs did not show the effect, which does not prove that the effect never happens."""
    UNTESTED = "untested"
    """The runs could not have shown the effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandRun:
    """Observations about one operand of a call, made while the call ran several times."""

    elements: int
    written: int = 0
    """Number of elements that changed in at least one run."""
    first: int = 0
    """Number of the first changed element, in row-major order; 0 if none changed."""
    last: int = 0
    """Number of the last changed element; 0 if none changed."""
    is_written: Seen = Seen.UNTESTED
    is_read: Seen = Seen.UNTESTED
    """Whether other contents of the operand led to other results."""
    outside: int = 0
    """Number of guard bytes around the operand that changed in at least one run."""
    is_guarded: bool = False
    """Whether the buffer that the call got lay between guard bytes; false for a copy that XLA made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRun:
    """Observations about one output of a call, made while the call ran several times."""

    elements: int
    left: int = 0
    """Number of elements that still had the canary's bytes after the runs, for two different canaries."""
    first: int = 0
    """Number of the first element that still had the canary's bytes, in row-major order; 0 if there is none."""
    is_left: Seen = Seen.UNTESTED
    """Whether the call left elements of the output unwritten. UNTESTED for an output that aliases an operand, or if XLA
    put the canary into other bytes than the output's.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRun:
    """Observations about one call, which ran several times by itself on a device."""

    runs: int
    operands: tuple[OperandRun, ...]
    outputs: tuple[OutputRun, ...]
    unsteady: tuple[str, ...] = ()
    """Names of the buffers, such as `output 0`, whose contents after the call differed between two runs that began with
    the same contents.
    """
    reads_outside: bool = False
    """Whether the results changed when the guard bytes around the operands were different."""
    reads_old_outputs: bool = False
    """Whether the results changed when the outputs held another canary before the call. Elements that the call does not
    write do not count.
    """


class RunFailure(StrEnum):
    """The step at which the run on a device failed. There are then no observations about the call."""

    NONE = "none"
    CALL = "call"
    """A run of the call by itself, perhaps with other contents of an operand."""
    PROGRAM = "program"
    """The program, before it reached the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCall:
    """A kernel call that the worker found in the function."""

    kernel: str
    source: SourceLine | None = None
    """The user's line that makes the call."""
    module: str = ""
    """The call by itself as a serialized HloModuleProto in base64; empty if it could not be lowered."""
    trouble: str = ""
    """The reason why the call could not be lowered by itself; empty if it was lowered."""
    is_dropped: bool = False
    """Whether JAX dropped the call, because nothing uses its outputs."""
    run: CallRun | None = None
    not_run: str = ""
    """The reason why the call was not run; empty if it was run, or if no run was requested."""
    failure: RunFailure = RunFailure.NONE


class ProblemKind(StrEnum):
    """A kind of contradiction between the declaration of a call, the code of its kernel, and its runs."""

    UNDECLARED_WRITE = "undeclared write"
    NEVER_WRITTEN = "declared, never written"
    UNDECLARED_READ = "undeclared read"
    UNWRITTEN_OUTPUT = "unwritten output"
    OLD_OUTPUT = "read of an unwritten output"
    NO_OPERAND = "no such operand"
    OUTSIDE = "access outside of a buffer"
    CONTRADICTION = "code and run disagree"
    DROPPED = "dropped call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A contradiction about one buffer of a call, between the declaration, the code of the kernel, and the runs."""

    kind: ProblemKind
    kernel: str
    message: str
    """A fact and a place, lower case, without a final stop."""
    evidence: tuple[str, ...] = ()
    """One line for each observation or piece of code that shows the problem."""
    lines: tuple[SourceLine, ...] = ()
    """The lines of the kernel's source that show the problem; empty if unknown."""
    help: str = ""
    """One remedy; empty if no remedy is known."""
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRow:
    """One operand or output of a call: what the call declares, what the code may do, and what the runs showed."""

    name: str
    """Name of the buffer, such as `operand 0`."""
    shape: str
    """Shape of the buffer in HLO, such as `f32[8,16]`."""
    declared: str
    code: str
    seen: str
    """The observations of the runs in words; empty if the call was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """One kernel call in the report, with its buffers."""

    kernel: str
    source: SourceLine | None
    rows: tuple[BufferRow, ...]
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpcheckReport(Shown):
    """The result of `ligerdiag.opcheck`. As text, it has each call with its buffers, and the problems."""

    function: str
    calls: tuple[CheckedCall, ...]
    problems: tuple[Problem, ...]
    not_covered: tuple[str, ...]
    """One line for each question that neither the code nor a run could decide. Unless this is empty, `ok` is false."""
    notes: tuple[str, ...] = ()
    """Lines on the parts of the check that were left out, and on behaviour in the runs that is no problem by itself."""
    device: str = ""
    """The kind of the device that ran the calls; empty if only the kernels' code was read."""

    @property
    def ok(self) -> bool:
        """Returns whether there is no problem and everything that matters could be decided."""
        return not self.problems and not self.not_covered

    def raise_if_wrong(self) -> None:
        """Raises AssertionError unless the report is `ok`. The text of the error is the report."""
        if not self.ok:
            raise AssertionError(f"ligerdiag.opcheck of `{self.function}`\n{self}")

    def __repr__(self) -> str:
        words = [f"{one.kind.value}: {one.message}" for one in self.problems]
        words += [f"not covered: {line}" for line in self.not_covered]
        return f"<OpcheckReport of `{self.function}`: {'; '.join(words) or 'ok'}>"
