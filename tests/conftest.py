"""Runs the tests in several processes that share compiled programs and worker templates."""

import gc
from collections import Counter
from typing import Any

import hypothesis
import pytest

from ligerdiag.garbage import collect_rarely
from ligerdiag.workers.outside_reads import OUTSIDE_READS
from tests.nightly import is_nightly
from tests.rotation import current_turn, waits
from tests.scheduling import count_processes, load_costs, make_scheduler, sort_by_cost
from tests.shared_run import SharedRun, own_templates, shared_cache

__all__ = ["own_templates", "shared_cache"]

# how long a draw takes on a busy machine says nothing about the code
hypothesis.settings.register_profile(
    "any speed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any speed")

gc.disable()  # until the tests are collected: a million objects, of which hardly any is garbage

pytest_plugins = ["pytester", "tests.light_environment", "tests.plain_environment"]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shared = SharedRun()
        shared.start(has_all=config.args_source is not pytest.Config.ArgsSource.ARGS)
        if len(getattr(config.option, "tx", ())) > 1:
            shared.collect_once(config.args)
        config.pluginmanager.register(shared)


_numbers: Counter[str] = Counter()
"""How many sets of parameters of each function have been collected."""


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("nightly") is not None:
        return
    if is_nightly(item.nodeid):
        item.add_marker(pytest.mark.nightly)
        return
    function = item.nodeid.partition("[")[0]
    if waits(item.nodeid, _numbers[function], current_turn()):
        item.add_marker(pytest.mark.nightly)
    _numbers[function] += 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {nodeid: number for number, nodeid in enumerate(sort_by_cost([one.nodeid for one in items], load_costs()))}
    items.sort(key=lambda item: order[item.nodeid])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the records of a case that a test has loaded in its own process: each later question about a file would take
    as long as a walk over the stack.
    """
    if nextitem is None or nextitem.path != item.path:
        OUTSIDE_READS.uninstall()


def pytest_collection_finish() -> None:
    gc.freeze()  # imports and tests stay until the end, so nobody needs to look for garbage among them
    collect_rarely()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Answers `-n auto`."""
    return count_processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distributes files by cost (pytest 9.2 ignores the place where xdist 3.8 writes groups)."""
    return make_scheduler(config, log)
