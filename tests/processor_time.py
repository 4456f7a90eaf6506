"""Records each test's cost in the JUnit file: `pytest -n 0 -p tests.processor_time --junitxml=report/junit.xml`.

The cost is the processor time of the test process and everything it started, including workers that keep running.
Parallel test processes share such workers, so only a run in one process can separate the tests.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

PROPERTY = "processor_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")


def read_processor_seconds() -> float:
    """Returns the processor seconds of this process and its descendants, including the ones that have ended."""
    return sum(_read_ticks(pid) for pid in walk_processes(os.getpid())) / _TICKS


def walk_processes(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            numbers = children.read_text().split()
        except OSError:  # the process has just ended
            continue
        for number in numbers:
            yield from walk_processes(int(number))


def _read_ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_BEFORE] = read_processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    result = yield
    item.user_properties.append((PROPERTY, round(read_processor_seconds() - item.stash[_BEFORE], 2)))
    return result


_BEFORE = pytest.StashKey[float]()
