"""Decides which of the selected cases a run checks, when the run stops, and what each case's report says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.api.judging import Run, RunKey
from ligerdiag.api.last_run import (
    LastRun,
    RunPolicy,
    load_last_run,
    remember_run,
    save_last_run,
    select_open_cases,
)
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.selectors import Selector, parse_selectors
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, Identity, Status
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.report.allowed.known_findings import KnownFindings
from ligerdiag.report.allowed.suppressions import Suppressions
from ligerdiag.report.status import conclude
from ligerdiag.run_options import CheckOptions


@dataclass(slots=True, kw_only=True)
class RunCourse:
    """The course of one run of `check`: how it chooses cases, its results so far, and the record of earlier runs."""

    run: Run
    options: CheckOptions
    toolchain: str
    policy: RunPolicy | None
    known: KnownFindings
    find_recorded: Callable[[Identity], ScheduleFacts | None]
    """Returns the baseline's entry for a case."""
    list_roots: Callable[[Source], tuple[str, ...]]
    """Returns the folders below which the report of a case may read source files."""
    last: LastRun | None = None
    """The record of the earlier runs in this folder; None if there is none."""

    def conclude(self, key: RunKey, suppressions: Suppressions) -> CaseReport:
        """Returns the report of a judged case from the results that the run has so far."""
        return conclude(
            self.run.judged[key],
            suppressions,
            replay=self.run.replays.get(key),
            device=self.run.devices.get(key),
            recorded=self.find_recorded(self.run.judged[key].identity),
            budgets=self.options.budgets,
            source_roots=self.list_roots(key[0]),
        )

    def choose(self, cases: tuple[CaseSpec, ...], targets: Sequence[str]) -> tuple[CaseSpec, ...]:
        """Returns those of the selected cases that this run checks, and records in the run how they were chosen."""
        run, policy = self.run, self.policy
        run.found = frozenset((case.source, case.id) for case in cases)
        if policy is None or not policy.last_failed or not cases:
            return cases
        selection = select_open_cases(cases, self.last, targets=targets, toolchain=self.toolchain)
        run.selected, run.is_partial = selection.said, len(selection.cases) < len(cases)
        return selection.cases

    def is_last(self, key: RunKey) -> bool:
        """Returns whether the run stops after this case, and records that in `run.stopped_by`.

        Call it when the case has new results.
        """
        if self.policy is None or not self.policy.exit_first or self.run.stopped_by is not None:
            return False
        if self._is_unexpected(key):
            self.run.stopped_by = key
        return self.run.stopped_by is not None

    def finish(self, ending: Ending | None) -> Ending | None:
        """Adds a "not done" result to the run for each step that was not done.

        Returns the event that ended the run early, or None if everything was done. ending: the event from outside, if
        there was one.

        After a stop at the first unexpected case, a case may have verdicts and still lack numbers (of a replay or a run
        on a device). It counts as not run, unless its verdicts already show that it is not as expected.
        """
        run, replay, device = self.run, self.options.replay, self.options.device
        if ending is None and run.stopped_by is not None:
            halves = [key for key in run.order if run.lacks_numbers(key, replay=replay, device=device)]
            if not halves and all(key in run.judged for key in run.order):
                return None
            ending = Ending.EXIT_FIRST
            for key in halves:
                if not self._is_unexpected(key):
                    run.withdraw(key, ending)
        if ending is not None:
            run.mark_undone(ending, self.toolchain, replay=replay, device=device, opaque=self.options.opaque)
        return ending

    def load(self, cache: Cache) -> None:
        """Reads the record of the earlier runs in this folder. Does nothing if the run has no `policy`."""
        if self.policy is not None:
            self.last = load_last_run(cache, Path.cwd())

    def find_selectors(self) -> tuple[Selector, ...]:
        """Returns the selectors of the run: the user's, or those of the cases in the record.

        The record is used if the user gives `--last-failed` and no selector, and if the folder has no `cases`.
        """
        given = tuple(self.options.selectors)
        if given or self.last is None or self.policy is None or not self.policy.last_failed:
            return given
        try:
            parse_selectors((), Path.cwd())
        except InputError:
            sources = dict.fromkeys(one.source for one in self.last.cases if not one.source.pickled)
            return tuple(one for one in sources if not one.file or Path(one.file).exists())
        return ()

    def remember(self, cache: Cache, reports: Sequence[tuple[Source, CaseReport]]) -> None:
        """Writes the record of this run, which the next run in this folder reads.

        Does nothing if the run has no `policy` or no result.
        """
        if self.policy is None or not reports:
            return
        last = remember_run(
            self.last,
            Path.cwd(),
            reports,
            fails=self.policy.fails,
            undone=self.run.undone,
            found=self.run.found,
            selectors=self.options.selectors,
        )
        save_last_run(cache, last)

    def _is_unexpected(self, key: RunKey) -> bool:
        """Returns whether a case is surely not as expected. Returns False for an inconclusive case that still lacks
        numbers, because the numbers may decide it, and for every case if the run has no policy.
        """
        known = KnownFindings(findings=self.known.findings, recorded=self.known.recorded, where=self.known.where)
        report = self.conclude(key, Suppressions(self.options.suppress, known=known))
        needs_numbers = self.run.lacks_numbers(key, replay=self.options.replay, device=self.options.device)
        if self.policy is None or (report.status is Status.INCONCLUSIVE and needs_numbers):
            return False
        return self.policy.fails(report)
