"""The fixture's object: one line of a test that fails unless a schedule is right."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

from ligerdiag.api.function import LiveFunction, check_chosen, check_live
from ligerdiag.api.options import CheckOptions, split_targets
from ligerdiag.cli.exit_codes import ExitCode, compute_exit_code
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.pytest_plugin.settings import MarkerWords, RunSettings, RunWords, parse_fail_on, require_known
from ligerdiag.render.terminal.terminal import MIN_WIDTH, render_terminal
from ligerdiag.replay.service.job import Bounds
from ligerdiag.toolchains.catalogue import DEFAULT

PASSING = frozenset({ExitCode.AS_EXPECTED, ExitCode.NOTHING_CHECKED})
"""A function whose kernels overwrite nothing without XLA's knowledge has nothing to check, and passes."""
_MARGIN = 4
"""Columns that pytest puts before each line of an error."""


class WrongScheduleError(AssertionError):
    """The schedule is not right, or it is unknown whether it is; `report` has it as data."""

    __module__ = "builtins"  # for pytest's summary, which then has room for the message

    def __init__(self, message: str, report: CaseReport) -> None:
        super().__init__(message)
        self.report = report


class Schedule:
    """Checks functions and cases for one test; what is compiled once stays in the cache, for all tests and processes."""

    def __init__(self, settings: RunSettings, marked: MarkerWords) -> None:
        """marked: what is not said in a call."""
        self._settings = settings
        self._marked = marked

    def check(self, fn: Callable[..., Any], *specs: Any, **words: Unpack[MarkerWords]) -> CaseReport:
        """Returns the report of the function; WrongScheduleError, with table and findings, unless its schedule is
        right.

        fn, specs and words as in `ligerdiag.check`. Right means: as `expected`, or without an expectation no output stale,
        clobbered or latent and no finding at or above `fail_on`; and, with `strict`, nothing that could not be decided. On
        several targets it has to be right on each; the report is that of the first.
        """
        __tracebackhide__ = True
        require_known(words, tuple(MarkerWords.__annotations__), "`schedule.check`")
        every = cast("MarkerWords", {**self._marked, **words})
        live = LiveFunction(
            function=fn,
            specs=specs,
            mesh=every.get("mesh"),
            name=every.get("name", ""),
            expected=every.get("expected"),
            expected_rules=every.get("expected_rules"),
            effects=every.get("effects"),
            reference=every.get("reference"),
        )
        try:
            report = check_live(live, self._make_options(every), self._settings.root)
        except LigerdiagError as error:
            raise error.with_traceback(None) from None
        return self._require_right(report, every)

    def check_case(self, case: CaseSpec, **words: Unpack[RunWords]) -> CaseReport:
        """Returns the same of a case of the marker `ligerdiag_cases`, held against its own expectation, both ways."""
        __tracebackhide__ = True
        require_known(words, tuple(RunWords.__annotations__), "`schedule.check_case`")
        every = cast("MarkerWords", {**self._marked, **words})
        try:
            report = check_chosen(case, self._make_options(every))
        except LigerdiagError as error:
            raise error.with_traceback(None) from None
        return self._require_right(report, every)

    def _make_options(self, words: MarkerWords) -> CheckOptions:
        settings = self._settings
        targets = split_targets(words.get("target", settings.target))
        return CheckOptions(
            targets=targets,
            usual_targets=settings.config.targets or targets,
            toolchain=words.get("toolchain", DEFAULT),
            replay=words.get("replay", True),
            bounds=Bounds(full=words.get("full", False)),
            device=words.get("device", False),
            refresh=words.get("refresh", False),
            timeout=words.get("timeout", 300.0),
            cache_directory=settings.cache_directory,
            jobs=settings.jobs,
            suppress=settings.config.suppress,
            effects=settings.config.effects,
        )

    def _require_right(self, report: CheckReport, words: MarkerWords) -> CaseReport:
        """Returns the report of the first target; WrongScheduleError with that of the first one that fails."""
        __tracebackhide__ = True
        strict = words.get("strict", self._settings.strict)
        fail_on = parse_fail_on(words["fail_on"]) if "fail_on" in words else self._settings.fail_on
        wrong = [
            case
            for case in report.cases
            if compute_exit_code(replace(report, cases=(case,)), fail_on=fail_on, strict=strict) not in PASSING
        ]
        if wrong:
            raise WrongScheduleError(_describe(report, wrong), wrong[0])
        return report.cases[0]


def _describe(report: CheckReport, cases: Sequence[CaseReport]) -> str:
    """Returns the cases that are not right in a line, and the table of all."""
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns - _MARGIN)
    hint = ": that fails unless `strict=False`" if any(case.status is Status.INCONCLUSIVE for case in cases) else ""
    heads = [f"`{cases[0].id}` on {case.target}: {case.status.value}" for case in cases]
    return f"{', '.join(heads)}{hint}\n\n{render_terminal(report, width=width)}"
