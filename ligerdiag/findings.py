"""Verdicts for outputs and findings for places. Plain data, no behaviour."""

from dataclasses import dataclass
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


VERDICT_ORDER = (Verdict.FRESH, Verdict.LATENT, Verdict.UNKNOWN, Verdict.CLOBBERED, Verdict.STALE)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlace:
    """The place where a value is read."""

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
    parts: tuple["Finding", ...] = ()
    """Of a cause that several findings have: these findings (see `causes`)."""
