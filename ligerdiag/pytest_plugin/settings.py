"""Settings of a test's checks, from command line, configuration file and markers; one test for each case that a worker
finds; and the fixture's object, one line of a test that fails unless a schedule is right.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import pytest

from ligerdiag.api.catalogue import list_cases
from ligerdiag.api.function import LiveFunction, check_chosen, check_live
from ligerdiag.api.judging import CheckOptions, split_targets
from ligerdiag.cli.exit_codes import ExitCode, FailOn, compute_exit_code
from ligerdiag.config import Config, load_config, require_known
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.render.terminal.terminal import MIN_WIDTH, render_terminal
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.toolchains.toolchain_table import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


DEFAULT_TARGET = "h100"


class RunWords(TypedDict, total=False):
    """How to check; the other options are as in `ligerdiag.check`."""

    target: str | tuple[str, ...] | list[str]
    """The GPU to compile for; of several, by commas or as a tuple, each has to be right."""
    toolchain: str
    replay: bool
    full: bool
    device: bool
    refresh: bool
    timeout: float
    strict: bool
    """Whether an undecided check fails the test."""
    fail_on: str
    """Least severity of a finding that fails the test: error, warning, note or never."""


class MarkerWords(RunWords, total=False):
    """Of a function: also what a case would say; as in `ligerdiag.check`."""

    mesh: "Mapping[str, int] | Sequence[int] | None"
    name: str
    expected: "str | Mapping[str, str] | None"
    expected_rules: tuple[str, ...] | None
    effects: "Mapping[str, Mapping[str, Sequence[int]]] | None"
    reference: "Callable[..., Any] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Of a whole run of pytest."""

    root: Path
    """pytest's root directory: what selectors and a worker's imports start from."""
    cache_directory: Path | None
    target: str
    fail_on: FailOn
    strict: bool
    jobs: int | None
    config: Config


_KEY = pytest.StashKey[RunSettings]()


def get_settings(config: pytest.Config) -> RunSettings:
    """Reads them once a run; InputError for what cannot be read."""
    if _KEY not in config.stash:
        config.stash[_KEY] = _read_settings(config)
    return config.stash[_KEY]


def read_marked(node: Any) -> MarkerWords:
    """Returns the options of a test's `schedule` markers, the nearest one first; raises InputError for an unknown
    option."""
    words: dict[str, Any] = {}
    for marker in node.iter_markers("schedule"):
        if marker.args:
            raise InputError(
                f"expected words such as `target=` in the marker `schedule` but got {marker.args[0]!r:.60}"
            )
        words = dict(marker.kwargs) | words
    require_known(words, tuple(MarkerWords.__annotations__), "the marker `schedule`")
    return MarkerWords(**words)


def parse_fail_on(word: str) -> FailOn:
    """Parses a severity; raises InputError for any other word."""
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
        target=target or next(iter(table.targets), DEFAULT_TARGET),
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
    """Gives the test its argument `case`, for each case that the selectors mean."""
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
