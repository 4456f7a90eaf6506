"""The pytest plugin: the fixture `schedule`, which checks a function in one line of a test, and a marker for cases.

Every run of pytest in an environment with ligerdiag loads this file, so it imports slow modules only when they are
needed.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ligerdiag.pytest_plugin.settings import Schedule

__all__ = ["pytest_addoption", "pytest_configure", "pytest_generate_tests", "schedule"]

_MARKERS = (
    "schedule(target='h100', replay=True, ...): default options of `schedule.check` in this test",
    "ligerdiag_cases(*selectors): run the test once for each of these cases, as its argument `case`;"
    " selectors as of `ligerdiag check`, from the root directory",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ligerdiag's options to pytest's command line and configuration file."""
    group = parser.getgroup("ligerdiag", "schedules of JAX programs (ligerdiag)")
    cache = "where artifacts are kept; by default LIGERDIAG_CACHE_DIR, else the user's cache"
    target = (
        "the GPU that schedules are made for, or several: a100,h100; by default all targets of [tool.ligerdiag],"
        " else h100"
    )
    group.addoption("--ligerdiag-cache-dir", metavar="DIR", help=cache)
    group.addoption("--ligerdiag-target", metavar="NAME", help=target)
    parser.addini("ligerdiag_cache_dir", cache, type="string", default="")
    parser.addini("ligerdiag_target", target, type="string", default="")
    parser.addini(
        "ligerdiag_fail_on",
        "lowest severity of a finding that fails a test (error, warning, note, never); by default that of"
        " [tool.ligerdiag], else warning",
        type="string",
        default="",
    )
    parser.addini(
        "ligerdiag_strict",
        "whether a test fails if something could not be decided; by default that of [tool.ligerdiag], else true",
        type="bool",
        default=None,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers ligerdiag's markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: Any) -> None:
    """Makes one test for each case that the marker `ligerdiag_cases` selects."""
    markers = list(metafunc.definition.iter_markers("ligerdiag_cases"))
    if markers:
        from ligerdiag.pytest_plugin.settings import parametrize_cases

        parametrize_cases(metafunc, tuple(str(selector) for marker in markers for selector in marker.args))


@pytest.fixture
def schedule(request: pytest.FixtureRequest) -> "Schedule":
    """Checks the schedule of a function: `schedule.check(train_step, params, batch)` fails the test unless the schedule is
    right.
    """
    from ligerdiag.pytest_plugin.settings import Schedule, get_settings, read_marked

    return Schedule(get_settings(request.config), read_marked(request.node))
