"""The exit codes of the commands: the meaning of each, and which one a run gets."""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, assert_never

from ligerdiag.ending import Ending
from ligerdiag.model.findings import ReplayState, Severity, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status

if TYPE_CHECKING:
    from ligerdiag.report.compared.report_comparison import ReportComparison
    from ligerdiag.report.comparisons import DifferenceReport


class ExitCode(IntEnum):
    """The exit codes of all commands. Their meanings never change, so that programs can rely on them."""

    AS_EXPECTED = 0
    FINDINGS = 1
    INPUT = 2
    NOT_ANALYSED = 3
    INCONCLUSIVE = 4
    NOTHING_CHECKED = 5
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.AS_EXPECTED: "as expected",
    ExitCode.FINDINGS: (
        "findings at or above --fail-on in a case without expectation, or a case that "
        "does not match its expectation, even if it is unexpectedly right; a drift from the "
        "--baseline or an exceeded budget, whatever is expected; under --strict also a suppression that is unused or "
        "gives no reason"
    ),
    ExitCode.INPUT: "usage or input error; the function of a case raises an exception",
    ExitCode.NOT_ANALYSED: (
        "could not analyse: compile error, abort, timeout; the --time-limit was reached, and some cases "
        "are unknown; or a rule raises an exception; or schedule and numbers disagree, and no finding explains it"
    ),
    ExitCode.INCONCLUSIVE: (
        "a case is inconclusive; without --strict, only if the case has an expectation and all of its outputs are unknown, "
        "or if the numbers of an unknown output are wrong"
    ),
    ExitCode.NOTHING_CHECKED: "nothing to check: no program has a custom call or asks XLA to work in place",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the results so far are shown",
    ExitCode.TERMINATED: "ended by SIGTERM; the results so far are shown",
}
"""The meaning of each exit code of `check`. If `--exitfirst` stops a run, only the cases that have a result decide its
exit code.
"""

MEANINGS_WITHOUT_EXPECTATION: Mapping[ExitCode, str] = MEANINGS | {
    ExitCode.AS_EXPECTED: "no findings at or above --fail-on",
    ExitCode.FINDINGS: (
        "findings at or above --fail-on; under --strict also a suppression that is unused or gives no reason"
    ),
    ExitCode.NOT_ANALYSED: (
        "could not analyse: a file that is damaged or of an unknown format; or the --time-limit was "
        "reached; or a replay fails; or a rule raises an exception; or schedule and numbers disagree, and no "
        "finding explains it"
    ),
    ExitCode.NOTHING_CHECKED: "nothing to check: no module has an in-place kernel or asks XLA to work in place",
}
"""The meaning of each exit code of `inspect` and `report`: the modules that these commands read have no expectations."""

MEANINGS_OF_DIFF: Mapping[ExitCode, str] = {
    ExitCode.AS_EXPECTED: "no difference that matters: the same verdicts, the same readers on the same sides",
    ExitCode.FINDINGS: "different verdicts, readers, copies or shared bytes, for better or for worse",
    ExitCode.INPUT: "usage or input error",
    ExitCode.NOT_ANALYSED: "could not analyse one of the two compiles, or find out when a kernel writes",
    ExitCode.NOTHING_CHECKED: "nothing compared: no kernel overwrites an operand behind XLA's back on either side",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}
"""The meaning of each exit code of `diff`."""

MEANINGS_OF_COMPARE: Mapping[ExitCode, str] = {
    ExitCode.AS_EXPECTED: "no case is worse or mixed",
    ExitCode.FINDINGS: (
        "a case is worse or mixed: its status, a verdict, peak memory, reserved memory, copied bytes or the bytes "
        "of collectives is worse; or it has another warning or error, or can no longer be analysed"
    ),
    ExitCode.INPUT: "usage or input error; a file that is no report; no case that both reports have",
    ExitCode.NOT_ANALYSED: "not a single case was analysed in the old report",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}
"""The meaning of each exit code of `compare`, and of `check` with two toolchains."""

MEANINGS_OF_TUNING: Mapping[ExitCode, str] = {
    ExitCode.AS_EXPECTED: "the file is written",
    ExitCode.INPUT: (
        "usage or input error; no GPU on this machine; nothing in the cases to tune. If only one case is wrong, the file "
        "has the choices of the others"
    ),
    ExitCode.NOT_ANALYSED: "a case could not be compiled; the file has the choices of the others, if there are any",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; nothing is written",
}
"""The meaning of each exit code of `record-tuning`."""

MEANINGS_OF_FIX: Mapping[ExitCode, str] = {
    ExitCode.AS_EXPECTED: "nothing to fix, or every case is fixed and the changes are written",
    ExitCode.FINDINGS: "a cure is offered and not written",
    ExitCode.INPUT: "usage or input error",
    ExitCode.NOT_ANALYSED: "a case could not be analysed",
    ExitCode.INCONCLUSIVE: "no cure is known for a case, or none that is proved",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; nothing is written",
    ExitCode.TERMINATED: "ended by SIGTERM; nothing is written",
}
"""The meaning of each exit code of `fix`."""

_ORDER = (
    ExitCode.INTERRUPTED,
    ExitCode.TERMINATED,
    ExitCode.INPUT,
    ExitCode.NOT_ANALYSED,
    ExitCode.FINDINGS,
    ExitCode.INCONCLUSIVE,
    ExitCode.NOTHING_CHECKED,
    ExitCode.AS_EXPECTED,
)
PRECEDENCE = "If several apply, the first of these counts: 130 or 143, 2, 3, 1, 4, 5, 0."
"""The order of precedence of the exit codes, as a text for the user."""

_OF_ENDINGS: Mapping[Ending, ExitCode] = {
    Ending.INTERRUPT: ExitCode.INTERRUPTED,
    Ending.TERMINATE: ExitCode.TERMINATED,
    Ending.TIME_LIMIT: ExitCode.NOT_ANALYSED,
    Ending.EXIT_FIRST: ExitCode.FINDINGS,
}


class FailOn(StrEnum):
    """The lowest severity with which a finding makes a run fail. With `never`, no finding does.

    A case that is not as expected always makes the run fail.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


def _is_undecided(case: CaseReport) -> bool:
    """Returns whether the case has an expectation and all of its outputs are unknown, or the replay or a device computes
    wrong numbers for an unknown output.
    """
    unknown = [name for name, verdict in case.outputs.items() if verdict is Verdict.UNKNOWN]
    if case.expected is not None and len(unknown) == len(case.outputs):
        return True
    numbers = [run.outputs.get(name) for run in (case.replay, case.device) if run is not None for name in unknown]
    return any(one is not None and one.attribution.is_wrong for one in numbers)


def choose_exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Returns the code that comes first in `PRECEDENCE`. There must be at least one code."""
    return min(codes, key=_ORDER.index)


def compute_exit_code(report: CheckReport, *, fail_on: FailOn, strict: bool) -> ExitCode:
    """Returns the exit code of a run of `check` or `inspect`. If several codes apply, it is the first in `PRECEDENCE`."""
    if report.interrupted and report.ended_by in (Ending.INTERRUPT, Ending.TERMINATE):
        return find_ending_code(report.ended_by)
    codes = {compute_case_code(case, fail_on=fail_on, strict=strict) for case in report.cases}
    if ExitCode.INPUT in codes:
        return ExitCode.INPUT
    if ExitCode.NOT_ANALYSED in codes or (report.interrupted and report.ended_by is Ending.TIME_LIMIT):
        return ExitCode.NOT_ANALYSED
    if ExitCode.FINDINGS in codes or (strict and report.unused_suppressions):
        return ExitCode.FINDINGS
    if ExitCode.INCONCLUSIVE in codes:
        return ExitCode.INCONCLUSIVE
    if report.interrupted:
        return find_ending_code(report.ended_by)  # no case fails, and some were not run
    if all(case.status is Status.NOTHING and not case.coverage.kernels for case in report.cases):
        return ExitCode.NOTHING_CHECKED  # a kernel that declares what it writes has been checked
    return ExitCode.AS_EXPECTED


def compute_case_code(case: CaseReport, *, fail_on: FailOn, strict: bool) -> ExitCode:
    """Returns the exit code that a run with only this case would have.

    It is AS_EXPECTED if the case does not make the run fail, or was not run.
    """
    if case.status is Status.ERROR:
        return ExitCode.INPUT if case.error_exit_code == ExitCode.INPUT else ExitCode.NOT_ANALYSED
    if case.status is Status.DISAGREEMENT or case.failures or _replay_died(case):
        return ExitCode.NOT_ANALYSED
    if fails_run(case, fail_on):
        return ExitCode.FINDINGS
    if case.status is Status.INCONCLUSIVE and (strict or _is_undecided(case)):
        return ExitCode.INCONCLUSIVE
    return ExitCode.AS_EXPECTED


def find_ending_code(ending: Ending) -> ExitCode:
    """Returns the exit code of a run that was ended early and whose cases give no other exit code.

    If the time limit ended the run, it is 3, as for a single case that takes too long. A signal's code would be wrong,
    because the user set the limit. Code 4 would mean that a case was analysed and could not be decided.
    """
    return _OF_ENDINGS[ending]


def compute_difference_code(report: "DifferenceReport") -> ExitCode:
    """Returns the exit code of a run of `diff`. If several codes apply, it is the first in `PRECEDENCE`."""
    if report.interrupted:
        return ExitCode.INTERRUPTED
    sides = [side.report for one in report.differences for side in one.sides]
    if any(side.error_exit_code == ExitCode.INPUT for side in sides):
        return ExitCode.INPUT
    if any(one.error or one.unsettled for one in report.differences):
        return ExitCode.NOT_ANALYSED
    if any(one.differs for one in report.differences):
        return ExitCode.FINDINGS
    return ExitCode.AS_EXPECTED if any(one.writes for one in report.differences) else ExitCode.NOTHING_CHECKED


def compute_comparison_code(comparison: "ReportComparison") -> ExitCode:
    """Returns the exit code of a run of `compare`.

    It is FINDINGS if a case is worse or mixed, and NOT_ANALYSED if no case could be compared.
    """
    if comparison.ended_by is not None:
        return find_ending_code(comparison.ended_by)
    # imports the rules, which `--help` does not need
    from ligerdiag.report.compared.report_comparison import GRADES_TO_CHECK, Grade

    grades = {case.grade for case in comparison.cases}
    if not grades.isdisjoint(GRADES_TO_CHECK):
        return ExitCode.FINDINGS
    return ExitCode.NOT_ANALYSED if grades == {Grade.UNKNOWN} else ExitCode.AS_EXPECTED


def fails_run(case: CaseReport, fail_on: FailOn) -> bool:
    """Returns whether this case makes the run exit with code 1."""
    return _fails(case, fail_on) or _drifts_or_exceeds(case, fail_on)


def _replay_died(case: CaseReport) -> bool:
    """Returns whether numbers that the user asked for are missing because of a fault; a bound on time or memory, or a
    known limit of the replay, is no fault.
    """
    if case.device is not None and case.device.died:
        return True
    return case.replay is not None and case.replay.state is ReplayState.FAILED


def _fails(case: CaseReport, fail_on: FailOn) -> bool:
    if case.status is Status.UNEXPECTED:
        return True
    if case.expected is not None or fail_on is FailOn.NEVER:
        return False
    from ligerdiag.report.status import (  # imports the rules, which `--help` does not need
        compute_allowed_outputs,
        list_counted,
    )

    least = Severity(fail_on.value).weight
    allowed = compute_allowed_outputs(case.outputs, case.findings)
    weights = [finding.severity.weight for finding in list_counted(case.findings)]
    weights += [_weight(verdict) for name, verdict in case.outputs.items() if name not in allowed]
    if case.device is not None:
        there = {name: Verdict(word) for name, word in case.device.verdicts.items()}
        weights += [_weight(verdict) for name, verdict in there.items() if allowed.get(name) is not verdict]
    return any(weight >= least for weight in weights)


def _drifts_or_exceeds(case: CaseReport, fail_on: FailOn) -> bool:
    """Returns whether a drift from the baseline or an exceeded budget makes the run fail. The expectation of the case
    does not matter: a user who gives a baseline or a budget wants to know.
    """
    if fail_on is FailOn.NEVER or not case.findings:
        return False
    from ligerdiag.report.status import list_counted
    from ligerdiag.rules.registry import list_ids
    from ligerdiag.rules.rule import BEYOND_EXPECTATION

    least, rules = Severity(fail_on.value).weight, list_ids(*BEYOND_EXPECTATION)
    return any(f.rule in rules and f.severity.weight >= least for f in list_counted(case.findings))


def _weight(verdict: Verdict) -> int:
    """Returns the weight of a verdict that no finding explains: that of an error if the verdict is wrong, that of a
    warning if it is latent, else -1 (no weight at all).
    """
    match verdict:
        case Verdict.STALE | Verdict.CLOBBERED:
            return Severity.ERROR.weight
        case Verdict.LATENT:
            return Severity.WARNING.weight
        case Verdict.FRESH | Verdict.UNKNOWN:
            return -1
        case _:
            assert_never(verdict)


def render_table(meanings: Mapping[ExitCode, str] = MEANINGS) -> str:
    """Returns a table of the exit codes and their meanings as text, for a help page."""
    lines: list[str] = []
    for code, meaning in meanings.items():
        head, *rest = _broken(meaning)
        lines += [f"{code.value:>5}  {head}", *(f"       {line}" for line in rest)]
    return "\n".join(lines)


def _broken(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 68)
