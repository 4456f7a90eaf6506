"""For pytest: the fixture `schedule`, which checks a function in one line of a test, and a marker for cases.

Every run of pytest in an environment with ligerdiag loads this file: whatever costs time is imported when it is needed.

Hides a log of JAX in a test's own process that has nothing to do with the test.

1. ligerdiag brings the CUDA plugin of JAX and no CUDA libraries: it compiles without a GPU. Where a test makes an array, JAX
   tries that plugin, misses cuDNN, logs an error with its traceback, and goes on with the CPU.
2. pytest shows that log beside each failing test. It is left out only on machines without an NVIDIA GPU: with one, it
   says why JAX does not use it.
3. `LIGERDIAG_DEBUG` keeps it.
"""

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ligerdiag.pytest_plugin.settings import Schedule


LOGGER = "jax._src.xla_bridge"
_DEVICES = (Path("/dev/nvidia0"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_HARMLESS = re.compile(r"Unable to load (cu\w+|CUPTI|NVSHMEM|NCCL)\b", re.IGNORECASE)


def keep_record(record: logging.LogRecord) -> bool:
    """Returns whether the record says more than that JAX finds no CUDA library; see 1."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.getMessage().startswith("Jax plugin configuration error") and _HARMLESS.search(str(error)))


def hide_harmless_logs() -> None:
    """Leaves such records out of what this process logs, where there is no NVIDIA GPU; see 2 and 3."""
    if not os.environ.get("LIGERDIAG_DEBUG") and not any(device.exists() for device in _DEVICES):
        logging.getLogger(LOGGER).addFilter(keep_record)


__all__ = ["pytest_addoption", "pytest_configure", "pytest_generate_tests", "schedule"]

_MARKERS = (
    "schedule(target='h100', replay=True, ...): what `schedule.check` takes in this test where it is not told otherwise",
    "ligerdiag_cases(*selectors): run the test once for each of these cases, as its argument `case`;"
    " selectors as of `ligerdiag check`, from the root directory",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line, and the same in the configuration file."""
    group = parser.getgroup("ligerdiag", "schedules of JAX programs (ligerdiag)")
    cache = "where artifacts are kept; by default LIGERDIAG_CACHE_DIR, else the user's cache"
    target = (
        "the GPU that schedules are made for, or several: a100,h100; by default the first of [tool.ligerdiag] targets,"
        " else h100"
    )
    group.addoption("--ligerdiag-cache-dir", metavar="DIR", help=cache)
    group.addoption("--ligerdiag-target", metavar="NAME", help=target)
    parser.addini("ligerdiag_cache_dir", cache, type="string", default="")
    parser.addini("ligerdiag_target", target, type="string", default="")
    parser.addini(
        "ligerdiag_fail_on",
        "least severity of a finding that fails a test (error, warning, note, never); by default that of"
        " [tool.ligerdiag], else warning",
        type="string",
        default="",
    )
    parser.addini(
        "ligerdiag_strict",
        "whether what could not be decided fails a test; by default that of [tool.ligerdiag], else true",
        type="bool",
        default=None,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, and keeps what JAX says of missing CUDA libraries out of failing tests."""
    from ligerdiag.pytest_plugin import hide_harmless_logs

    hide_harmless_logs()
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: Any) -> None:
    """One test for each case of the marker `ligerdiag_cases`."""
    markers = list(metafunc.definition.iter_markers("ligerdiag_cases"))
    if markers:
        from ligerdiag.pytest_plugin.settings import parametrize_cases

        parametrize_cases(metafunc, tuple(str(selector) for marker in markers for selector in marker.args))


@pytest.fixture
def schedule(request: pytest.FixtureRequest) -> "Schedule":
    """Checks the schedule of a function: `schedule.check(train_step, params, batch)` fails the test unless it is right."""
    from ligerdiag.pytest_plugin.settings import Schedule, get_settings, read_marked

    return Schedule(get_settings(request.config), read_marked(request.node))
