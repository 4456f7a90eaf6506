"""One test for each case, found by a worker as `ligerdiag check` finds them: the process of the tests imports none."""

from typing import Any

import pytest

from ligerdiag.api.catalogue import list_cases
from ligerdiag.compile.job import CaseSpec
from ligerdiag.errors import LigerdiagError
from ligerdiag.pytest_plugin.settings import get_settings

ARGUMENT = "case"

_KEY = pytest.StashKey[dict[tuple[str, ...], tuple[CaseSpec, ...]]]()


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
    found = config.stash.setdefault(_KEY, {})
    if selectors not in found:
        settings = get_settings(config)
        found[selectors] = list_cases(
            selectors, directory=settings.root, cache_directory=settings.cache_directory, jobs=settings.jobs
        )
    return found[selectors]
