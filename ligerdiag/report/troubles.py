"""The facts that a report states about a case beside its findings, and that no format may lose.

A verdict that contradicts the expectation, one that no finding explains, what could not be decided, an answer that another
one contradicts, a case that could not be looked at: each has an id of its own that never changes, as a rule has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.findings import Severity, Verdict
from ligerdiag.outcomes import ReplayState
from ligerdiag.report.allowed import compute_allowed_outputs
from ligerdiag.report.expectation import HAZARDOUS
from ligerdiag.report.model import CaseReport, Status
from ligerdiag.report.summary import DISAGREEMENT_HELP, MAX_LOG_LINES
from ligerdiag.words import join_words


class TroubleKind(StrEnum):
    """Ids of the troubles; never reused."""

    UNEXPECTED = "unexpected-verdict"
    UNEXPLAINED = "unexplained-verdict"
    INCONCLUSIVE = "inconclusive"
    DISAGREEMENT = "disagreement"
    NOT_ANALYSED = "not-analysed"
    NO_NUMBERS = "no-numbers"
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class TroublePage:
    """The explanation of a kind of trouble; one line, lower case, no final stop, each."""

    severity: Severity
    summary: str
    help: str


PAGES: Mapping[TroubleKind, TroublePage] = {
    TroubleKind.UNEXPECTED: TroublePage(
        severity=Severity.ERROR,
        summary="the verdicts of a case contradict what it expects, also when it is unexpectedly right",
        help="mend the program, or change what the case expects",
    ),
    TroubleKind.UNEXPLAINED: TroublePage(
        severity=Severity.ERROR,
        summary="an output is stale, clobbered or latent and no finding names the place",
        help="read the schedule around the kernels that overwrite an operand: `ligerdiag inspect` on the artifact",
    ),
    TroubleKind.INCONCLUSIVE: TroublePage(
        severity=Severity.WARNING,
        summary="something could not be decided, and is not called right for it",
        help="see what is not covered; a kernel that cannot be analysed can be declared",
    ),
    TroubleKind.DISAGREEMENT: TroublePage(
        severity=Severity.ERROR,
        summary="the schedule and the numbers say what cannot both be true",
        help=DISAGREEMENT_HELP,
    ),
    TroubleKind.NOT_ANALYSED: TroublePage(
        severity=Severity.ERROR,
        summary="a case could not be analysed: input or compile error, abort, timeout",
        help="see the end of the log; nothing is known about this case",
    ),
    TroubleKind.NO_NUMBERS: TroublePage(
        severity=Severity.ERROR,
        summary="a replay or a run on a device was tried and died",
        help="see the reason; the verdicts stand without numbers",
    ),
    TroubleKind.NOT_CHECKED: TroublePage(
        severity=Severity.WARNING,
        summary="the run was ended before a case's turn: by Ctrl-C, SIGTERM or its time limit",
        help="run it again, with more time or fewer cases: what was compiled is in the cache",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that a case is in trouble for."""

    kind: TroubleKind
    severity: Severity
    message: str
    """One line, lower case, no final stop."""
    outputs: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs."""


def list_troubles(case: CaseReport) -> tuple[Trouble, ...]:
    """Returns all of a case's troubles, those that weigh most first."""
    return tuple(
        trouble
        for find in (
            _find_error,
            _find_disagreements,
            _find_mismatch,
            _find_unexplained,
            _find_dead,
            _find_undecided,
            _find_unchecked,
        )
        for trouble in find(case)
    )


def _find_error(case: CaseReport) -> Iterator[Trouble]:
    if case.status is Status.ERROR:
        log = case.log_tail.splitlines()[-MAX_LOG_LINES:]
        message = case.error or "could not analyse"
        yield _make(TroubleKind.NOT_ANALYSED, message, evidence=tuple(("log", line) for line in log))


def _find_unchecked(case: CaseReport) -> Iterator[Trouble]:
    if case.status is Status.NOT_CHECKED:
        yield _make(TroubleKind.NOT_CHECKED, case.error or "not checked")


def _find_disagreements(case: CaseReport) -> Iterator[Trouble]:
    for one in case.disagreements:
        yield _make(TroubleKind.DISAGREEMENT, one.message, outputs=(one.output,), evidence=one.evidence)
    if case.status is Status.DISAGREEMENT and not case.disagreements:
        yield _make(TroubleKind.DISAGREEMENT, "schedule and numbers cannot both be true")


def _find_mismatch(case: CaseReport) -> Iterator[Trouble]:
    if case.mismatch or case.status is Status.UNEXPECTED:
        yield _make(TroubleKind.UNEXPECTED, case.mismatch or "the verdicts are not what the case expects")


def _find_unexplained(case: CaseReport) -> Iterator[Trouble]:
    """Verdicts weigh against a case without expectation, whether a finding names the place or not."""
    if case.expected is not None:
        return
    allowed = compute_allowed_outputs(case.outputs, case.findings)
    named = {name for finding in case.findings for name in finding.outputs}
    for name, verdict in case.outputs.items():
        if verdict in HAZARDOUS and name not in named and name not in allowed:
            yield _make_unexplained(name, verdict, f"`{name}` is {verdict.value}, and no finding says where")
    if case.device is None:
        return
    for name, word in case.device.verdicts.items():
        verdict = Verdict(word)
        if verdict in HAZARDOUS and case.outputs.get(name) is not verdict and allowed.get(name) is not verdict:
            there = case.outputs.get(name, Verdict.UNKNOWN)
            message = f"`{name}` is {verdict.value} on {case.device.device}, and {there.value} for {case.target}"
            yield _make_unexplained(name, verdict, message)


def _find_dead(case: CaseReport) -> Iterator[Trouble]:
    if case.replay is not None and case.replay.state is ReplayState.FAILED:
        yield _make(TroubleKind.NO_NUMBERS, f"not replayed: {case.replay.reason}")
    if case.device is not None and case.device.died:
        yield _make(TroubleKind.NO_NUMBERS, f"not run on {case.device.device}: {case.device.error}")


def _find_undecided(case: CaseReport) -> Iterator[Trouble]:
    """Outputs that are unknown, unless the case expects it, and what is not covered where that decided the status."""
    unknown = tuple(name for name, verdict in case.outputs.items() if verdict is Verdict.UNKNOWN)
    if case.status is not Status.INCONCLUSIVE and (not unknown or case.status is Status.EXPECTED):
        return
    names = join_words([f"`{name}`" for name in unknown])
    evidence = tuple(("not covered", line) for line in case.coverage.not_covered)
    message = f"{names} could not be decided" if unknown else "not everything could be decided"
    yield _make(TroubleKind.INCONCLUSIVE, message, outputs=unknown, evidence=evidence)


def _make(
    kind: TroubleKind, message: str, *, outputs: tuple[str, ...] = (), evidence: tuple[tuple[str, str], ...] = ()
) -> Trouble:
    return Trouble(kind=kind, severity=PAGES[kind].severity, message=message, outputs=outputs, evidence=evidence)


def _make_unexplained(name: str, verdict: Verdict, message: str) -> Trouble:
    severity = Severity.WARNING if verdict is Verdict.LATENT else Severity.ERROR
    return Trouble(kind=TroubleKind.UNEXPLAINED, severity=severity, message=message, outputs=(name,))
