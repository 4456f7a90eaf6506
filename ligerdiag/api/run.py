"""The cases of one run and what is known of them so far."""

from dataclasses import dataclass, field, replace

from ligerdiag.api.judging import find_file
from ligerdiag.compile.job import CaseSpec, Source
from ligerdiag.ending import Ending
from ligerdiag.outcomes import DeviceRun, Replay, ReplayState
from ligerdiag.replay.service import ReplayTask
from ligerdiag.report.model import CaseReport, Status

type Key = tuple[Source, str, str]
"""Source, case and target."""


@dataclass(slots=True, kw_only=True)
class Run:
    """The known results of the cases so far. Filled step by step, so that an interrupted run keeps the results it
    has."""

    order: tuple[Key, ...] = ()
    cases: dict[tuple[Source, str], CaseSpec] = field(default_factory=dict[tuple[Source, str], CaseSpec])
    reports: dict[Key, CaseReport] = field(default_factory=dict["Key", CaseReport])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])

    def mark_undone(self, ending: Ending, toolchain: str, *, replay: bool, device: bool) -> None:
        """Says of every case what was not done before the run was ended. replay, device: whether they were
        requested."""
        why = f"the run was ended by {ending.value} before its turn"
        for key in self.order:
            report = self.reports.get(key)
            if report is None:
                self.reports[key] = self._describe_unchecked(key, toolchain, why)
            elif not report.error:
                self.reports[key] = _fill_numbers(report, why, replay=replay, device=device)

    def _describe_unchecked(self, key: Key, toolchain: str, why: str) -> CaseReport:
        source, case_id, target = key
        case = self.cases[source, case_id]
        return CaseReport(
            id=case_id,
            target=target,
            toolchain=toolchain,
            status=Status.NOT_CHECKED,
            about=case.about,
            expected=case.expected,
            expected_rules=case.expected_rules,
            error=why,
            source=find_file(source),
        )


def _fill_numbers(report: CaseReport, why: str, *, replay: bool, device: bool) -> CaseReport:
    if replay and report.replay is None:
        report = replace(report, replay=Replay(state=ReplayState.NOT_DONE, reason=why))
    if device and report.device is None:
        report = replace(report, device=DeviceRun(device="", count=0, runs=0, error=why))
    return report
