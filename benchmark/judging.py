"""Decides from ligerdiag's reports on the two programs of a public report whether each witness found the mistake.

A witness finds a report if it calls one of the named outputs wrong, or if one of its rules for the report's kinds of
mistake names such an output or a marked line (`benchmark.report.Wrong`). A rule for another kind, or elsewhere, does not
count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from benchmark.report import Entry, Kind, read_marked_instructions, read_marks
from ligerdiag.model.findings import Finding, Replay, ReplayState, Severity, SourceLine, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import DecidedBy

RULES: Mapping[Kind, tuple[str, ...]] = {
    Kind.STALE: ("LD001", "LD002", "LD003", "LD006", "LD016", "LD035"),
    Kind.CLOBBERED: ("LD003", "LD004", "LD005", "LD006", "LD009", "LD016"),
    Kind.MOVED_BY_JAX: ("LD007", "LD016", "LD023"),
    Kind.SHARED_BYTES: ("LD011", "LD018", "LD021", "LD022", "LD024", "LD026"),
    Kind.UNWRITTEN_READ: ("LD013", "LD016", "LD025"),
    Kind.LOST_UPDATE: ("LD008", "LD011", "LD016", "LD017", "LD019", "LD022", "LD026"),
    Kind.REPEATED_UPDATE: ("LD008", "LD010", "LD016", "LD017"),
    Kind.WRONG_DECLARATION: ("LD006", "LD009", "LD018"),
    Kind.OUT_OF_BOUNDS: ("LD020",),
    Kind.SILENT_COPY: ("LD027", "LD029", "LD030", "LD031", "LD032"),
    Kind.VOID_DONATION: ("LD027", "LD028", "LD036"),
    Kind.MEMORY_DRIFT: ("LD033", "LD034"),
    Kind.OVERLAP: ("LD003", "LD005"),
    Kind.NO_COMPILE: (),
    Kind.MISCOMPILE: ("LD016", "LD021", "LD022", "LD024"),
    Kind.OUT_OF_REACH: (),
}
"""The rules that say each kind of mistake. LD016, a comparison with the case's reference, says of any wrong value that it is
wrong."""

_MEMORY = {rule for kind in (Kind.SILENT_COPY, Kind.VOID_DONATION, Kind.MEMORY_DRIFT) for rule in RULES[kind]}


class Witness(StrEnum):
    """A part of ligerdiag that looks at a program by itself."""

    STATIC = "static"
    """The verdicts, and the rules that the schedule decides."""
    REPLAY = "replay"
    """The numbers of program and schedule on the CPU."""
    ORDERS = "orders"
    """The numbers of other legal orders of the schedule."""
    MEMORY = "memory"
    """The rules on copies, donations and memory."""
    DEVICE = "device"
    """The numbers of a GPU, which are measured once."""


class Outcome(StrEnum):
    """The answer of a witness, or of ligerdiag as a whole, on a bad program."""

    FOUND = "found"
    MISSED = "missed"
    UNKNOWN = "unknown"
    """It says that it could not decide, which is not a clean bill."""
    NOT_RUN = "not run"


class Cured(StrEnum):
    """The answer of ligerdiag on the cured twin."""

    CLEAN = "clean"
    FALSE = "false"
    """It reports a hazard that is not there."""
    UNKNOWN = "unknown"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer of ligerdiag on one program, with its grounds."""

    witnesses: Mapping[str, str] = field(default_factory=dict[str, str])
    """From witness to outcome."""
    status: str = ""
    rules: tuple[str, ...] = ()
    """Rules with findings, each once."""
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0
    error: str = ""

    @property
    def outcome(self) -> Outcome:
        """Returns the outcome of all witnesses together: found if one found it, else unknown if one is in doubt."""
        values = set(self.witnesses.values())
        return next((one for one in (Outcome.FOUND, Outcome.UNKNOWN) if one in values), Outcome.MISSED)


def judge_bad(entry: Entry, report: CaseReport) -> Judgement:
    """Returns what each witness says of the bad program."""
    if missing := set(entry.report.finds.outputs) - set(report.outputs or entry.report.finds.outputs):
        raise ValueError(f"Expected outputs of {report.id} in Report.finds but got `{missing.pop()}`")
    if report.status in (Status.ERROR, Status.NOT_CHECKED):
        if entry.report.kind is Kind.NO_COMPILE and "does not compile" in report.error:
            return describe(report, {Witness.STATIC: Outcome.FOUND})
        return describe(report, dict.fromkeys((Witness.STATIC, Witness.REPLAY, Witness.MEMORY), Outcome.UNKNOWN))
    wanted = entry.report.finds.outputs
    rules = {rule for kind in entry.report.kinds for rule in RULES[kind]}
    located = [one for one in report.findings if one.rule in rules and is_located(entry, one)]
    by_witness = {witness: [one for one in located if find_witness(one) is witness] for witness in Witness}
    is_about_memory = all(rule in _MEMORY for rule in rules)
    found = {
        Witness.STATIC: Outcome.NOT_RUN if is_about_memory else _judge_verdicts(report.outputs, wanted),
        Witness.REPLAY: Outcome.NOT_RUN if is_about_memory else _judge_replay(report.replay, wanted),
        Witness.ORDERS: Outcome.NOT_RUN if is_about_memory else _judge_orders(report.replay, wanted),
        Witness.MEMORY: Outcome.MISSED if rules & _MEMORY else Outcome.NOT_RUN,
        Witness.DEVICE: Outcome.NOT_RUN,
    }
    if not wanted and report.status is Status.INCONCLUSIVE and not is_about_memory:
        found[Witness.STATIC] = Outcome.UNKNOWN
    for witness, findings in by_witness.items():
        if findings:
            found[witness] = Outcome.FOUND
    return describe(report, found)


def judge_cured(report: CaseReport) -> Cured:
    """Returns what ligerdiag says of the cured twin."""
    match report.status:
        case Status.CLEAN | Status.NOTHING | Status.EXPECTED | Status.ALLOWED:
            return Cured.CLEAN
        case Status.FINDINGS | Status.UNEXPECTED | Status.DISAGREEMENT:
            return Cured.FALSE
        case Status.INCONCLUSIVE:
            return Cured.UNKNOWN
        case Status.ERROR | Status.NOT_CHECKED:
            return Cured.ERROR


def describe(report: CaseReport, witnesses: Mapping[Witness, Outcome]) -> Judgement:
    """Returns a record of a report. witnesses: the outcomes; empty for a cured program."""
    return Judgement(
        witnesses={witness.value: outcome.value for witness, outcome in witnesses.items()},
        status=report.status.value,
        rules=tuple(sorted({one.rule for one in report.findings if one.severity is not Severity.NOTE})),
        verdicts={name: verdict.value for name, verdict in report.outputs.items()},
        seconds=round(report.seconds + (report.replay.seconds if report.replay is not None else 0.0), 2),
        error=report.error,
    )


def _judge_verdicts(outputs: Mapping[str, Verdict], wanted: Iterable[str]) -> Outcome:
    verdicts = [outputs.get(name, Verdict.UNKNOWN) for name in wanted]
    if any(verdict.is_wrong or verdict is Verdict.LATENT for verdict in verdicts):
        return Outcome.FOUND
    return Outcome.UNKNOWN if Verdict.UNKNOWN in verdicts else Outcome.MISSED


def _judge_replay(replay: Replay | None, wanted: Iterable[str]) -> Outcome:
    if replay is None:
        return Outcome.NOT_RUN
    if replay.state is not ReplayState.DONE:
        return Outcome.UNKNOWN
    numbers = [replay.outputs[name].attribution for name in wanted if name in replay.outputs]
    if any(one.is_wrong for one in numbers):
        return Outcome.FOUND
    return Outcome.MISSED


def _judge_orders(replay: Replay | None, wanted: Iterable[str]) -> Outcome:
    if replay is None or replay.orders is None or not replay.orders.tried:
        return Outcome.NOT_RUN
    return Outcome.FOUND if any(name in replay.orders.changed for name in wanted) else Outcome.MISSED


def find_witness(finding: Finding) -> Witness:
    """Returns the part of ligerdiag that the finding comes from."""
    if finding.rule in _MEMORY:
        return Witness.MEMORY
    match get_rule(finding.rule).decided_by:
        case DecidedBy.SCHEDULE | DecidedBy.BASELINE | DecidedBy.BUDGET:
            return Witness.STATIC
        case DecidedBy.REPLAY:
            return Witness.REPLAY
        case DecidedBy.DEVICE:
            return Witness.DEVICE


def is_located(entry: Entry, finding: Finding) -> bool:
    """Returns whether the finding is about a wrong output, or about a marked line."""
    finds = entry.report.finds
    if set(finding.outputs) & set(finds.outputs):
        return True
    if isinstance(entry.bad, Path):
        marks = read_marked_instructions(entry.bad)
        return any(marks.get(name.lstrip("%")) in finds.at for name in finding.instructions)
    marked = {line for line, mark in read_marks(entry.file).items() if mark in finds.at}
    return any(
        marked & _list_lines(place) for place in _list_places(finding) if Path(place.file).name == entry.file.name
    )


def _list_places(finding: Finding) -> list[SourceLine]:
    places = [finding.source]
    if finding.call is not None:
        places += [finding.call.line, *finding.call.stores]
    if finding.reader is not None:
        places.append(finding.reader.line)
    return [place for place in places if place is not None]


def _list_lines(place: SourceLine) -> set[int]:
    return {*range(place.line, max(place.line, place.span.end_line if place.span else 0) + 1)}
