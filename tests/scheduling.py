"""Hands the files of tests to the processes of a run: one file at a time, the longest first, see `costs.json`.

`make costs` measures them anew. A file that is not there yet counts as one of average length.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

COSTS = Path(__file__).with_name("costs.json")

TOGETHER = {
    **dict.fromkeys(("tests/api/test_readme.py", "tests/api/test_views.py"), "tests/api/test_all_cases.py"),
    **dict.fromkeys(
        ("tests/hazards/test_newest_examples.py", "tests/hazards/test_rules_on_a_terminal.py"),
        "tests/hazards/test_examples.py",
    ),
}
"""Files that stay with another one: all check all of cases/, which takes half a minute with everything in the cache, or
all examples of the rules."""


PROCESSES_PER_CORE = 2
"""A test that has a worker compile or a command run waits; two processes on two cores leave 40 percent of them idle."""
MAX_PROCESSES = 16
"""Each imports jax and collects all tests, and has some 400 MB."""


def count_processes() -> int:
    """In how many processes a run's tests are run on this machine."""
    return min(PROCESSES_PER_CORE * len(os.sched_getaffinity(0)), MAX_PROCESSES)


def load_costs(path: Path = COSTS) -> dict[str, float]:
    """Seconds by file, such as `tests/api/test_run.py`; none where the file is not there."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


ROOMS = ("tests/bisect/", "tests/dumps/", "tests/security/")
"""Whose files stay together: what they share is made by a fixture, and is in no cache."""
ALONE = ("tests/gpu/",)
"""Whose tests share nothing, and take up to minutes each: they are handed out one by one."""
VARIANTS = {"tests/newcomer/test_newcomer.py": ("plain", "pinned")}
"""Whose tests are handed out by a word of their parameters: what they share, they share with those of the same word."""


def find_group(nodeid: str) -> str:
    """What a test is handed out with, mostly its file."""
    file, _, name = nodeid.partition("::")
    if file.startswith(ALONE):
        return nodeid
    room = next((room for room in ROOMS if file.startswith(room)), "")
    if room:
        return room
    words = [word for word in VARIANTS.get(file, ()) if word in re.split(r"[\[\]-]", name)]
    return f"{file}[{words[0]}]" if words else TOGETHER.get(file, file)


def sort_by_cost(nodeids: Sequence[str], costs: dict[str, float]) -> list[str]:
    """The tests by group, the longest group first; within a group, and among equals, in the given order."""
    average = mean(costs.values()) if costs else 0.0
    groups: dict[str, list[str]] = {}
    for nodeid in nodeids:
        groups.setdefault(find_group(nodeid), []).append(nodeid)

    def estimate(group: str) -> float:
        files = {nodeid.partition("::")[0] for nodeid in groups[group]}
        return costs[group] if group in costs else sum(costs.get(file, average) for file in files)

    return [nodeid for group in sorted(groups, key=estimate, reverse=True) for nodeid in groups[group]]


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler of xdist's that keeps to the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class CostScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return find_group(nodeid)

    config.option.loadscopereorder = False
    return CostScheduling(config, log)
