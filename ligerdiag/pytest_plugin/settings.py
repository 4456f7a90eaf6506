"""Settings of a test's checks, from command line, configuration file and markers; and one test for each case that a
worker finds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from ligerdiag.api.catalogue import list_cases
from ligerdiag.cli.exit_codes import FailOn
from ligerdiag.config import Config, load_config, require_known
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.jobs import CaseSpec

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
