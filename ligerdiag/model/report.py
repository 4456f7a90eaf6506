"""The result of a run of `check` or `inspect` as plain data, from which alone renderers write text, JSON and HTML.

A report has no text that a renderer would have to parse, and a renderer decides nothing about the program. A case for
which no conclusion is drawn yet is `Judged`: it has an analysis of its schedule, or the reason why there is none.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.ending import Ending
from ligerdiag.errors import CompileError, LigerdiagError, describe_bug
from ligerdiag.model.findings import (
    VERDICT_ORDER,
    Attribution,
    DeviceRun,
    Finding,
    Replay,
    RuleFailure,
    SourceLine,
    SuppressionKind,
    Verdict,
)
from ligerdiag.model.jobs import WritePlace
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.schedule_view import CallState, Neighbourhood, ScheduleView
from ligerdiag.model.shown import Shown
from ligerdiag.model.tuning import Tuning
from ligerdiag.text import compute_printable, count_of

SCHEMA_VERSION = "7"
"""Version of the JSON of these records (docs/json.md); a change that breaks a reader raises it."""


class Status(StrEnum):
    """The conclusion about a case; exit codes depend on it."""

    CLEAN = "clean"
    """The case has no expectation; every output is fresh, everything was analysed, and there is no finding, apart from
    questions to the author (LD035).
    """
    EXPECTED = "as expected"
    """The verdicts match the case's expectation, whether it is fresh or a hazard."""
    ALLOWED = "allowed"
    """The case has no expectation, and every finding is allowed by a suppression with a reason."""
    FINDINGS = "findings"
    """The case has no expectation, and there are findings."""
    UNEXPECTED = "unexpected"
    """The verdicts contradict the case's expectation; this includes a program that is unexpectedly right."""
    INCONCLUSIVE = "inconclusive"
    """An output is undecided, or a part of the program is not covered; this never counts as clean."""
    DISAGREEMENT = "disagreement"
    """The analysis of the schedule and the computed numbers contradict each other, and no finding explains it; the
    case's expectation does not matter.
    """
    NOTHING = "nothing to check"
    """The effects of every kernel are known, no kernel writes an operand, and no operation of the program asks XLA to
    work in place.
    """
    ERROR = "could not analyse"
    """The compile failed, aborted or timed out, or the artifact is unreadable; see `error`."""
    NOT_CHECKED = "not checked"
    """The run was ended before the case's turn, so nothing is known about the case; see `error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a program the verdicts are based on, so that "no hazards" never means "did not look"."""

    instructions: int = 0
    """Number of instructions of the optimized module whose values the analysis followed."""
    kernels: int = 0
    """Number of custom calls (kernels, libraries, FFI targets) whose effects were computed."""
    hidden_writes: int = 0
    """Number of (kernel call, operand) pairs that are written without XLA's knowledge."""
    declared_writes: int = 0
    """Number of (custom call, result) pairs of which XLA knows that the result takes the bytes of an operand."""
    tags: int = 0
    """Number of tags in the unoptimized module; a tag is the number by which ligerdiag finds an operation of the
    program again after the compile.
    """
    tags_found: int = 0
    """Number of tags of the unoptimized module that the optimized module has, too."""
    buffer_assignment: bool = False
    """Whether XLA's own buffer assignment could be read."""
    requests: int = 0
    """Number of requests to work in place (such as donated arguments) and of copies that the analysis judged; see
    `model.memory`.
    """
    not_covered: tuple[str, ...] = ()
    """One line for each construct that is in the program and that the analysis does not model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two answers about one output that contradict each other, such as the verdict `fresh` and stale numbers."""

    output: str
    static: Verdict
    numbers: Attribution
    message: str
    """One line that states both answers."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs: the evidence of both answers, then the causes that are possible or ruled out."""
    help: str = "trust neither answer about this output"
    """A line about the causes that are not ruled out, with advice."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CaseReport(Shown):
    """The report on one case on one target. `print` shows it as the terminal does."""

    id: str
    target: str
    toolchain: str
    status: Status
    about: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    has_reference: bool = False
    """Whether the case has a reference, a function that computes the same in plain jnp. `report.words.uncompared` says why
    it was not compared with the outputs.
    """
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Maps each output name to its verdict, in the program's order."""
    findings: tuple[Finding, ...] = ()
    """The findings of all rules, one for each place; renderers combine those with one cause (see `report.causes`)."""
    failures: tuple[RuleFailure, ...] = ()
    """Rules that raised an exception; `coverage` names them, too. A case with such a rule is neither clean nor as
    expected.
    """
    coverage: Coverage = field(default_factory=Coverage)
    replay: Replay | None = None
    """The result of the replay on the CPU; None if not requested, or if nothing could be analysed."""
    device: DeviceRun | None = None
    """The result of a run on a device; None if not requested."""
    disagreements: tuple[Disagreement, ...] = ()
    seconds: float = 0.0
    """Seconds that the compile (0 if cached) and the analysis took; `replay` has its own time."""
    compile_seconds: float = 0.0
    """The part of `seconds` that the compile took."""
    cached: bool = False
    """Whether the artifact came from the cache."""
    printed: str = ""
    """The text that the case's own code printed while it was traced. Only the terminal shows it."""
    mismatch: str = ""
    """One line on how the verdicts contradict the expectation; empty if they do not."""
    error: str = ""
    """If the status is `could not analyse` or `not checked`, one line with the reason; else empty."""
    error_exit_code: int = 0
    """Exit code that the error calls for: 2 for wrong input, 3 for a program that could not be analysed."""
    log_tail: str = ""
    """Last lines of the compile worker's log, if the worker died."""
    artifact: str = ""
    """Directory of the artifact, for `inspect` and for reading the HLO by hand."""
    source: str = ""
    """Absolute path of the file that defines the case; empty if unknown. The JSON report leaves it out."""
    source_roots: tuple[str, ...] = ()
    """Real paths of the folders below which renderers read source lines (see `source_text`). No report shows it."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """The neighbourhood of each hidden write (who reads the overwritten value, when and from which bytes), if a
    baseline or a comparison needs it. No report shows it.
    """
    kernel_calls: tuple[CallState, ...] | None = None
    """The kernel calls of the schedule, if a comparison needs them; else None. No report shows them."""
    view: ScheduleView | None = None
    """The data for the HTML report, if requested. No other report shows it."""
    memory: MemoryUse | None = None
    """The memory, copies and donations of the program; None if nothing could be analysed, or if XLA's buffer assignment
    is missing.
    """
    tuning: Tuning | None = None
    """The choices of XLA's autotuner; None if nothing could be analysed, or if the program was not compiled for a
    described GPU.
    """
    run: "CheckReport | None" = None
    """The run that made this report of one case: its notes, versions and seconds, without its cases. None if the report
    of the case is part of a report of the run. The JSON report leaves the field out.
    """

    def __repr__(self) -> str:
        verdicts = Counter(self.outputs.values())
        counts = ", ".join(f"{verdicts[one]} {one.value}" for one in reversed(VERDICT_ORDER) if verdicts[one])
        rules = ", ".join(sorted({finding.rule for finding in self.findings}))
        findings = f"{count_of(len(self.findings), 'finding')} ({rules})" if self.findings else ""
        said = "; ".join(part for part in (self.status.value, self.error, counts, findings) if part)
        return compute_printable(f"<CaseReport {self.id} on {self.target}: {said}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedSuppression:
    """A suppression that allowed no finding, or that gives no reason."""

    kind: SuppressionKind
    rule: str
    """Id of the rule, or the text as written if there is no such rule."""
    reason: str
    """The reason that the suppression gives; empty if it has none."""
    where: str
    """`file:line` of the comment, or the configuration file and the number of the entry in it."""
    message: str
    """One line on what is wrong with the suppression."""


class Noun(StrEnum):
    """The word by which a report calls its entries."""

    CASE = "case"
    """The entries are programs that were compiled for the report, with or without an expectation."""
    MODULE = "module"
    """The entries are modules that were compiled elsewhere, which have no expectation."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckReport(Shown):
    """The report of a whole run. `print` shows it as the terminal does."""

    cases: tuple[CaseReport, ...]
    targets: tuple[str, ...]
    toolchain: str
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each of the toolchain's packages to its version."""
    is_other_toolchain: bool = False
    """Whether the toolchain differs from the one that is installed with ligerdiag."""
    seconds: float = 0.0
    interrupted: bool = False
    """Whether the run was ended early; each case says whether it was checked."""
    ended_by: Ending = Ending.INTERRUPT
    """The event that ended the run, if `interrupted`."""
    notes: tuple[str, ...] = ()
    """One line for each file that has no case in the report, and for each doubt about how ligerdiag read a case."""
    selected: str = ""
    """One line on the cases that `--last-failed` selected; empty without that option."""

    @property
    def cut_by(self) -> Ending | None:
        """Returns the signal or time limit that ended the run early; None if the run ended by itself, or because of `-x` at
        the first unexpected case.
        """
        return self.ended_by if self.interrupted and self.ended_by is not Ending.EXIT_FIRST else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Returns the line on the selected cases, if any, followed by the notes of the run, for formats that have only one
        kind of note.
        """
        return (*((f"selected: {self.selected}",) if self.selected else ()), *self.notes)

    printed: tuple[tuple[str, str], ...] = ()
    """(name of a file or module, the text that it printed when it was imported). Only the terminal shows it."""
    sandbox: tuple[str, ...] = ()
    """One line for each restriction that the operating system did not let the sandbox set. The process that reads
    untrusted files may still do the things that such a restriction forbids. The JSON report leaves the field out.
    """
    dropped_fields: tuple[str, ...] = ()
    """One line for each target that comes with ligerdiag and has fields that the toolchain's XLA does not know, shown
    with `--verbose`. The JSON report leaves it out.
    """
    noun: Noun = Noun.CASE
    unused_suppressions: tuple[UnusedSuppression, ...] = ()
    """The unused suppressions, as far as this run can tell that they are unused; see docs/suppressions.md."""

    def __repr__(self) -> str:
        statuses = Counter(case.status for case in self.cases)
        counts = ", ".join(f"{statuses[one]} {one.value}" for one in Status if statuses[one]) or "none"
        more = "; ended early" if self.interrupted else ""
        reports = count_of(len(self.cases), f"{self.noun.value} report")
        return compute_printable(f"<CheckReport of {reports} on {', '.join(self.targets)}: {counts}{more}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of a run, reported while it happens."""

    phase: str
    """The phase of the run, such as `toolchain`, `discover`, `compile`, `analyse`, `replay`, `device`, or `try` for a trial
    of `bisect`.
    """
    event: str
    """The event: `started` or `finished`."""
    done: int
    total: int
    """The value that `done` has at the end of the phase; 0 if not known yet."""
    case_id: str = ""
    target: str = ""
    cached: bool = False
    """Whether the artifact, or the replay, came from the cache."""
    best: str = ""
    """In `bisect`, the best result of the search so far, or the passes that are to blame, in a few words; empty if there
    is nothing to say.
    """


type OnProgress = Callable[[Progress], None]


MOST_FRAMES = 8
"""The largest number of frames of a traceback that a report shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identifies a case on one target, or a module; each field means the same as in `CaseReport`."""

    id: str
    target: str
    toolchain: str = ""
    about: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    has_reference: bool = False
    source: str = ""
    artifact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOperand:
    """A hidden write (a kernel call and an operand that it overwrites without XLA's knowledge), identified by the
    call's operation in the program.
    """

    kernel: str
    call: int
    """Tag of the kernel's custom call: the number that ligerdiag gives each operation before the compile; 0 if the call
    has no tag.
    """
    operand: int
    """0-based number of the overwritten operand of the call."""
    unknown: bool
    """Whether ligerdiag could not follow the kernel, so that it is unknown whether the kernel writes the operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The result of the static analysis of one compilation."""

    outputs: Mapping[str, Verdict]
    findings: tuple[Finding, ...]
    coverage: Coverage
    failures: tuple[RuleFailure, ...] = ()
    """Rules that raised an exception; the coverage names them, too."""
    written: tuple[WrittenOperand, ...] = ()
    """The operands that kernels overwrite without XLA's knowledge, in program order."""
    write_places: Mapping[int, WritePlace] = field(default_factory=dict[int, WritePlace])
    """Maps the number of a hidden write (`CallPlace.number`) to its place in the program as written; lacks writes that the
    program declares or does not contain.
    """
    meant: Mapping[str, int] = field(default_factory=dict[str, int])
    """Maps each output name to the hidden writes on which the output depends in the program as written, as a bit set
    (`analysis.evaluation.labels` defines the bits; the writes are in program order); empty if no output depends on a
    write.
    """
    unlooked: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each output that may hold bytes that no kernel has written to the reason for this doubt. Only a
    replay can show whether the output does hold such bytes.
    """
    output_lines: Mapping[str, SourceLine] = field(default_factory=dict[str, SourceLine])
    """Maps each output name to the line that computes the output; lacks outputs without a line, such as arguments that are
    returned unchanged.
    """
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """The neighbourhood of each hidden write (who reads the overwritten value, when and from which bytes), if
    requested.
    """
    kernel_calls: tuple[CallState, ...] | None = None
    """The kernel calls of the schedule, if neighbourhoods are requested; else None."""
    view: ScheduleView | None = None
    """The data for an HTML report, if requested."""
    memory: MemoryUse | None = None
    """The memory, copies and donations; None if there is no schedule, or if XLA's buffer assignment is missing."""
    tuning: Tuning | None = None
    """The choices of XLA's autotuner; None if the program was not compiled for a described GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why there is no analysis of a case."""

    error: str
    """One line that says why there is no analysis of the case."""
    exit_code: int = 0
    """Exit code that the error gives the run; 0 if the error does not change the exit code of the run."""
    log_tail: str = ""
    """Last lines of the log of a worker that died, or of the traceback of a bug in ligerdiag."""
    is_undone: bool = False
    """Whether the run was ended before the case was analysed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case on one target, or one module, with the analysis of its schedule or the reason why there is none."""

    identity: Identity
    result: Inspection | Refusal
    seconds: float = 0.0
    """Seconds that the compile (0 if cached) and the analysis took."""
    compile_seconds: float = 0.0
    """The part of `seconds` that the compile took."""
    cached: bool = False
    """Whether the artifact came from the cache."""
    printed: str = ""
    """The text that the case's own code printed while it was traced."""


def refuse(identity: Identity, error: LigerdiagError) -> Judged:
    """Returns the record of a case that cannot be analysed because of an error."""
    tail = error.log_tail if isinstance(error, CompileError) else ""
    refusal = Refusal(error=str(error), exit_code=error.exit_code, log_tail=tail)
    return Judged(identity=identity, result=refusal)


def refuse_for_bug(identity: Identity, fault: Exception) -> Judged:
    """Returns the record of a case that cannot be analysed because of a bug in ligerdiag."""
    refusal = Refusal(
        error=f"a bug in ligerdiag stopped the analysis: {describe_bug(fault)}",
        exit_code=LigerdiagError.exit_code,
        log_tail="".join(traceback.format_exception(fault)[-MOST_FRAMES:]),
    )
    return Judged(identity=identity, result=refusal)


def leave_undone(identity: Identity, why: str) -> Judged:
    """Returns the record of a case that the run did not analyse, because it ended before."""
    return Judged(identity=identity, result=Refusal(error=why, is_undone=True))
