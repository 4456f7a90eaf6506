"""A case or module after its analysis and before its conclusion: what its schedule says, or why that is not known."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.errors import CompileError, LigerdiagError, describe_bug
from ligerdiag.model.findings import Finding, RuleFailure, Verdict
from ligerdiag.model.report import Coverage
from ligerdiag.model.schedule_view import Neighbourhood, ScheduleView

MOST_FRAMES = 8
"""Of a traceback, in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a case on one target, or of a module; the fields are those of `CaseReport`."""

    id: str
    target: str
    toolchain: str = ""
    about: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    source: str = ""
    artifact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOperand:
    """A hidden write, by the operation of the program that does it."""

    kernel: str
    call: int
    """Tag of the kernel's custom call; 0 where it has none."""
    operand: int
    """Of that call, 0-based."""
    unknown: bool
    """It may or may not be written: the kernel could not be followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The result of the static analysis of one compilation."""

    outputs: Mapping[str, Verdict]
    findings: tuple[Finding, ...]
    coverage: Coverage
    failures: tuple[RuleFailure, ...] = ()
    """Rules that failed; the coverage names them, too."""
    written: tuple[WrittenOperand, ...] = ()
    """The operands that kernels overwrite without XLA's knowledge, in program order."""
    meant: Mapping[str, int] = field(default_factory=dict[str, int])
    """Output name to what its author wants it to depend on, as `labels` of hidden writes; empty without any."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """The neighbourhood of each hidden write, if requested."""
    view: ScheduleView | None = None
    """The data for an HTML report, if requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why there is no analysis."""

    error: str
    """One line."""
    exit_code: int = 0
    """The exit code that it asks for; 0 leaves that to the rest of the run."""
    log_tail: str = ""
    """Last lines of the worker's log, when it died; of a traceback, for a bug of ours."""
    is_undone: bool = False
    """The run was ended before its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case on one target, or one module, with all that its schedule says."""

    identity: Identity
    result: Inspection | Refusal
    seconds: float = 0.0
    """Wall time for compile (0 when cached) and analysis."""
    cached: bool = False
    """The artifact came from the cache."""


def refuse(identity: Identity, error: LigerdiagError, seconds: float = 0.0, *, cached: bool = False) -> Judged:
    """Returns the record of a subject that an error keeps from being analysed; the others stand."""
    tail = error.log_tail if isinstance(error, CompileError) else ""
    refusal = Refusal(error=str(error), exit_code=error.exit_code, log_tail=tail)
    return Judged(identity=identity, result=refusal, seconds=seconds, cached=cached)


def refuse_for_bug(identity: Identity, fault: Exception, seconds: float = 0.0, *, cached: bool = False) -> Judged:
    """Returns the record of a subject that a bug of ours keeps from being analysed; the others stand."""
    refusal = Refusal(
        error=f"ligerdiag failed on it, which is a bug: {describe_bug(fault)}",
        exit_code=LigerdiagError.exit_code,
        log_tail="".join(traceback.format_exception(fault)[-MOST_FRAMES:]),
    )
    return Judged(identity=identity, result=refusal, seconds=seconds, cached=cached)


def leave_undone(identity: Identity, why: str) -> Judged:
    """Returns the record of a subject that the run did not come to."""
    return Judged(identity=identity, result=Refusal(error=why, is_undone=True))
