"""Implements the fixture `schedule` and the marker `ligerdiag_cases`; a test that uses either fails unless the schedule
is right.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, cast

import pytest

from ligerdiag.api.catalogue import list_cases
from ligerdiag.api.function import (
    CaseKeywords,
    RunKeywords,
    check_chosen,
    check_live,
    make_check_options,
    make_live_function,
)
from ligerdiag.api.judging import split_targets
from ligerdiag.cli.exit_codes import ExitCode, FailOn, compute_exit_code
from ligerdiag.config import Config, load_config, require_known
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.terminal.concise import rank_reason, render_reason
from ligerdiag.report.terminal.full_report import MIN_WIDTH, render_terminal
from ligerdiag.run_options import CheckOptions

DEFAULT_TARGET = "h100"


class CaseCheckKeywords(RunKeywords, total=False):
    """Keywords of `schedule.check_case`. The keywords of `RunKeywords` mean the same as in `ligerdiag.check`."""

    target: str | tuple[str, ...] | list[str]
    """The GPU to compile for, or several, with commas or as a tuple; the schedule must be right on each."""
    strict: bool
    """Whether the test fails if something could not be decided."""
    fail_on: str
    """The lowest severity of a finding that fails the test: error, warning, note or never."""


class MarkerKeywords(CaseKeywords, CaseCheckKeywords, total=False):
    """Keywords of `schedule.check` and of the marker `schedule`. The keywords of `CaseKeywords` mean the same as in
    `ligerdiag.check`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a whole run of pytest."""

    root: Path
    """pytest's root directory: selectors and the imports of workers start from there."""
    cache_directory: Path | None
    target: str
    fail_on: FailOn
    strict: bool
    jobs: int | None
    config: Config


_KEY = pytest.StashKey[RunSettings]()


def get_settings(config: pytest.Config) -> RunSettings:
    """Returns the settings of this run of pytest. They are read once. Raises InputError for malformed settings."""
    if _KEY not in config.stash:
        config.stash[_KEY] = _read_settings(config)
    return config.stash[_KEY]


def read_marked(node: Any) -> MarkerKeywords:
    """Returns the options in the `schedule` markers of a test. If several markers set the same option, the marker
    nearest to the test counts. Raises InputError for an unknown option.
    """
    words: dict[str, Any] = {}
    for marker in node.iter_markers("schedule"):
        if marker.args:
            raise InputError(
                f"expected keywords such as `target=` in the marker `schedule` but got {marker.args[0]!r:.60}"
            )
        words = dict(marker.kwargs) | words
    require_known(words, tuple(MarkerKeywords.__annotations__), "the marker `schedule`")
    return MarkerKeywords(**words)


def parse_fail_on(word: str) -> FailOn:
    """Parses the name of a severity. Raises InputError for any other word."""
    try:
        return FailOn(word)
    except ValueError:
        raise InputError(f"expected one of {', '.join(FailOn)} for `fail_on` but got `{word}`") from None


def _read_settings(config: pytest.Config) -> RunSettings:
    table = load_config(None, config.rootpath)
    cache = config.getoption("--ligerdiag-cache-dir")
    cache = Path(cache).absolute() if cache else _join(config, "ligerdiag_cache_dir")
    target = config.getoption("--ligerdiag-target") or config.getini("ligerdiag_target")
    strict = config.getini("ligerdiag_strict")
    return RunSettings(
        root=config.rootpath,
        cache_directory=cache,
        target=target or ",".join(table.targets) or DEFAULT_TARGET,
        fail_on=parse_fail_on(config.getini("ligerdiag_fail_on") or table.fail_on or FailOn.WARNING),
        strict=next((one for one in (strict, table.strict) if one is not None), True),
        jobs=1 if hasattr(config, "workerinput") else None,
        config=table,
    )


def _join(config: pytest.Config, name: str) -> Path | None:
    value = config.getini(name)
    return config.rootpath / value if value else None


ARGUMENT = "case"

_CASES_KEY = pytest.StashKey[dict[tuple[str, ...], tuple[CaseSpec, ...]]]()


def parametrize_cases(metafunc: Any, selectors: tuple[str, ...]) -> None:
    """Runs the test once for each case that the selectors choose, with the case as its argument `case`."""
    if ARGUMENT not in metafunc.fixturenames:
        raise pytest.Collector.CollectError(
            f"expected the argument `{ARGUMENT}` of a test with the marker `ligerdiag_cases`:"
            f" def {metafunc.function.__name__}(schedule, {ARGUMENT})"
        )
    try:
        cases = _find_cases(metafunc.config, selectors)
    except LigerdiagError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    metafunc.parametrize(ARGUMENT, cases, ids=[case.id for case in cases])


def _find_cases(config: pytest.Config, selectors: tuple[str, ...]) -> tuple[CaseSpec, ...]:
    found = config.stash.setdefault(_CASES_KEY, {})
    if selectors not in found:
        settings = get_settings(config)
        found[selectors] = list_cases(
            selectors, directory=settings.root, cache_directory=settings.cache_directory, jobs=settings.jobs
        )
    return found[selectors]


PASSING = frozenset({ExitCode.AS_EXPECTED, ExitCode.NOTHING_CHECKED})
"""Exit codes with which a test passes. NOTHING_CHECKED is among them, so a function whose kernels hide no write passes."""
_MARGIN = 4
"""Number of columns that pytest puts before each line of an error."""


class WrongScheduleError(AssertionError):
    """Raised if the schedule is not right, or if that could not be decided. `report` has the details."""

    __module__ = "builtins"  # shortens the name in pytest's summary, which then has room for the message

    def __init__(self, message: str, report: CaseReport) -> None:
        super().__init__(message)
        self.report = report


class Schedule:
    """The value of the fixture `schedule`, which checks functions and cases for one test. All tests and processes share
    one cache of artifacts.
    """

    def __init__(self, settings: RunSettings, marked: MarkerKeywords) -> None:
        """marked: options from the test's markers, for calls that do not set them."""
        self._settings = settings
        self._marked = marked

    def check(self, fn: Callable[..., Any], *specs: Any, **words: Unpack[MarkerKeywords]) -> CaseReport:
        """Checks the function and returns its report. Raises WrongScheduleError, with the table and the findings,
        unless its schedule is right.

        fn, specs and keywords mean the same as in `ligerdiag.check`. The schedule is right if it is as `expected`.
        Without an expectation it is right if no output is stale, clobbered or latent and no finding is at or above
        `fail_on`. With `strict`, nothing may be undecided. The schedule must be right on each target; the report is
        that of the first target.
        """
        __tracebackhide__ = True
        require_known(words, tuple(MarkerKeywords.__annotations__), "`schedule.check`")
        every = cast("MarkerKeywords", {**self._marked, **words})
        live = make_live_function(fn, specs, every)
        try:
            report = check_live(live, self._make_options(every), self._settings.root)
        except LigerdiagError as error:
            raise error.with_traceback(None) from None
        return self._require_right(report, every)

    def check_case(self, case: CaseSpec, **words: Unpack[CaseCheckKeywords]) -> CaseReport:
        """Checks a case of the marker `ligerdiag_cases` and returns its report. Raises WrongScheduleError unless the
        case is as it expects.
        """
        __tracebackhide__ = True
        require_known(words, tuple(CaseCheckKeywords.__annotations__), "`schedule.check_case`")
        every = cast("MarkerKeywords", {**self._marked, **words})
        try:
            report = check_chosen(case, self._make_options(every))
        except LigerdiagError as error:
            raise error.with_traceback(None) from None
        return self._require_right(report, every)

    def _make_options(self, words: MarkerKeywords) -> CheckOptions:
        settings = self._settings
        targets = split_targets(words.get("target", settings.target))
        return make_check_options(
            words,
            targets=targets,
            usual_targets=settings.config.targets or targets,
            cache_directory=settings.cache_directory,
            jobs=settings.jobs,
            suppress=settings.config.suppress,
            known=settings.config.known,
            autotune_results=settings.config.autotune_results,
            effects=settings.config.effects,
            budgets=settings.config.budgets,
        )

    def _require_right(self, report: CheckReport, words: MarkerKeywords) -> CaseReport:
        """Returns the report of the first target. If a target fails, raises WrongScheduleError with the worst report,
        or the first of several that are equally bad.
        """
        __tracebackhide__ = True
        strict = words.get("strict", self._settings.strict)
        fail_on = parse_fail_on(words["fail_on"]) if "fail_on" in words else self._settings.fail_on
        wrong = [
            case
            for case in report.cases
            if compute_exit_code(replace(report, cases=(case,)), fail_on=fail_on, strict=strict) not in PASSING
        ]
        if wrong:
            wrong.sort(key=rank_reason, reverse=True)  # keeps the order of targets that are as bad
            raise WrongScheduleError(_describe(report, wrong), wrong[0])
        return report.cases[0]


def _describe(report: CheckReport, cases: Sequence[CaseReport]) -> str:
    """Returns the text of a WrongScheduleError. Its first line has the worst finding of the first case, and the status
    of each case; below it comes the whole report.

    cases: the cases that are not right, the worst first. pytest's summary shows only the beginning of the first line,
    so the rule and the output come first.
    """
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns - _MARGIN)
    hint = ": that fails unless `strict=False`" if any(case.status is Status.INCONCLUSIVE for case in cases) else ""
    heads = [f"`{case.id}` on {case.target}: {case.status.value}" for case in cases]
    reason = render_reason(cases[0])
    return f"{f'{reason}; ' if reason else ''}{', '.join(heads)}{hint}\n\n{render_terminal(report, width=width)}"
