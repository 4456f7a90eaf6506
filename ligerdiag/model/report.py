"""The result of a run of `check` or `inspect`, as plain data: the only thing that a renderer sees.

A report holds no text that a renderer would have to parse; a renderer holds no decision about the program. Before its
conclusion a case is `Judged`: what its schedule says, or why that is not known.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.ending import Ending
from ligerdiag.errors import CompileError, LigerdiagError, describe_bug
from ligerdiag.model.findings import Attribution, DeviceRun, Finding, Replay, RuleFailure, SuppressionKind, Verdict
from ligerdiag.model.schedule_view import Neighbourhood, ScheduleView

SCHEMA_VERSION = "6"
"""Version of the JSON form of these records (docs/json.md); a change that breaks a reader raises it."""


class Status(StrEnum):
    """One word for a case; `EXIT_STATUSES` in the command line's contract build on it."""

    CLEAN = "clean"
    """No expectation given; every output is fresh, everything was analysed, no finding at all."""
    EXPECTED = "as expected"
    """The verdicts match the case's expectation, whether it is fresh or a hazard."""
    ALLOWED = "allowed"
    """No expectation given, and every finding is allowed, with a reason."""
    FINDINGS = "findings"
    """No expectation given, and there are findings."""
    UNEXPECTED = "unexpected"
    """The verdicts contradict the case's expectation; also when the program is unexpectedly right."""
    INCONCLUSIVE = "inconclusive"
    """Something could not be decided; never clean."""
    DISAGREEMENT = "disagreement"
    """The schedule and the numbers contradict each other, and no finding explains it, whatever was expected."""
    NOTHING = "nothing to check"
    """No kernel of the program writes an operand without XLA's knowledge, and none is unknown."""
    ERROR = "could not analyse"
    """Compile failure, abort, timeout or unreadable artifact; see `error`."""
    NOT_CHECKED = "not checked"
    """The run was ended before its turn; see `error`. Nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The basis of a verdict, so that "no hazards" never means "did not look"."""

    instructions: int = 0
    """Instructions of the optimized module that were followed."""
    kernels: int = 0
    """Custom calls whose effects were computed (kernels, libraries, FFI targets)."""
    hidden_writes: int = 0
    """(kernel call, operand) pairs written without XLA's knowledge."""
    tags: int = 0
    """Tags of the program's own operations in the unoptimized module."""
    tags_found: int = 0
    """Of those, how many were found again in the optimized module."""
    buffer_assignment: bool = False
    """Whether XLA's own buffer assignment could be read."""
    not_covered: tuple[str, ...] = ()
    """One line for each thing that the analysis met and does not model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two answers about one output that cannot both be true."""

    output: str
    static: Verdict
    numbers: Attribution
    message: str
    """One line: the witness and its statement."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs, of both sides; then the causes that are possible or ruled out."""
    help: str = "trust neither for this output"
    """What is left, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """One case on one target."""

    id: str
    target: str
    toolchain: str
    status: Status
    about: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order."""
    findings: tuple[Finding, ...] = ()
    """Each rule's own, one for each place; renderers show their causes (see `causes`)."""
    failures: tuple[RuleFailure, ...] = ()
    """Rules that failed on it, which the coverage names; a report with one is never clean, nor as expected."""
    coverage: Coverage = field(default_factory=Coverage)
    replay: Replay | None = None
    """The numbers on the CPU; None if they were not requested, or nothing could be analysed."""
    device: DeviceRun | None = None
    """The numbers of a real device; None if they were not requested."""
    disagreements: tuple[Disagreement, ...] = ()
    seconds: float = 0.0
    """Wall time for compile (0 when cached) and analysis; `replay` has its own."""
    cached: bool = False
    """The artifact came from the cache."""
    mismatch: str = ""
    """One line: how the verdicts contradict the expectation."""
    error: str = ""
    """One line, when status is `could not analyse` or `not checked`."""
    error_exit_code: int = 0
    """Exit code that the error asks for (2 input, 3 could not analyse)."""
    log_tail: str = ""
    """Last lines of the worker's log, when it died."""
    artifact: str = ""
    """Directory of the artifact, for `inspect` and for reading the HLO by hand."""
    source: str = ""
    """Absolute path of the file that defines the case; empty where it is not known. Stands in no JSON."""
    source_roots: tuple[str, ...] = ()
    """Real paths of the folders below which source lines are read for the report; see `source_text`. Stands in no report."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """Around each hidden write, if a baseline or a comparison needs it; part of no report."""
    view: ScheduleView | None = None
    """The data for the HTML report, if requested; part of no other report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedSuppression:
    """A suppression of a finding that does not exist, or one without a reason."""

    kind: SuppressionKind
    rule: str
    """Rule id; as it was written where there is no such rule."""
    reason: str
    """Empty where there is none."""
    where: str
    """`file:line` of the comment, or file and number of the entry."""
    message: str
    """One line: what is wrong with it."""


class Noun(StrEnum):
    """The name of a report's entries."""

    CASE = "case"
    """Programs that were compiled for the report, with an expectation or without."""
    MODULE = "module"
    """Modules that were compiled elsewhere, without expectation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """A whole run."""

    cases: tuple[CaseReport, ...]
    targets: tuple[str, ...]
    toolchain: str
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Package name to version, of the toolchain that compiled."""
    is_other_toolchain: bool = False
    """Another one compiled than ligerdiag is installed with."""
    seconds: float = 0.0
    interrupted: bool = False
    """The run was ended before everything was done; `cases` says of each what was."""
    ended_by: Ending = Ending.INTERRUPT
    """The event that ended it, if it was interrupted."""
    notes: tuple[str, ...] = ()
    """Notes on what was found and is no case of the report, one line each, and on how a case was read if that is in
    question."""
    sandbox: tuple[str, ...] = ()
    """The accesses that the process that read untrusted files could not be denied, one line each; part of no JSON."""
    noun: Noun = Noun.CASE
    unused_suppressions: tuple[UnusedSuppression, ...] = ()
    """As far as the run can tell; see docs/suppressions.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of a run, told while it happens."""

    phase: str
    """`toolchain`, `discover`, `compile`, `analyse` or `replay`."""
    event: str
    """`started` or `finished`."""
    done: int
    total: int
    """0 when not known yet."""
    case_id: str = ""
    target: str = ""
    cached: bool = False
    """The artifact, or the replay, came from the cache."""
    best: str = ""
    """The best result of a search so far."""


type OnProgress = Callable[[Progress], None]


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
    unlooked: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output name to the reason why it may hold what nobody has written, which only numbers can tell."""
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
