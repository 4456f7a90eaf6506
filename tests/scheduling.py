"""Distributes test files to the processes of a run, one at a time, the longest first; `costs.json` holds their seconds.

`make costs` measures them again. A file without a cost counts as average.
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
    **dict.fromkeys(
        (f"tests/inspection/{name}.py" for name in ("test_dump_replay", "test_reductions", "test_retag")),
        "tests/inspection/test_missing_parts.py",
    ),
    "tests/docs/test_pointers.py": "tests/docs/test_english.py",
    **dict.fromkeys(
        ("tests/docs/test_page_addresses.py", "tests/docs/test_site.py"), "tests/docs/test_site_in_chromium.py"
    ),
}
"""Files that run in the same process as another one: each of them checks all of cases/, which takes half a minute even
with a full cache, or all rule examples, or the same programs without tags, or builds the site, or reads the sources of
the repository.
"""


PROCESSES_PER_CORE = 2
"""A test waits while a worker compiles or a command runs: with two processes, two cores are idle for 40 percent of the
time.
"""
MAX_PROCESSES = 16
"""Each process imports jax, collects all tests and takes about 400 MB."""


def count_processes() -> int:
    """Returns how many processes run the tests on this machine."""
    return min(PROCESSES_PER_CORE * len(os.sched_getaffinity(0)), MAX_PROCESSES)


def load_costs(path: Path = COSTS) -> dict[str, float]:
    """Returns the seconds of each file, such as `tests/api/test_run.py`; empty if there is no file of costs."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


FOLDERS = ("tests/bisect/", "tests/dumps/", "tests/security/")
"""Folders whose files run in one process: they share the result of a fixture, which no cache holds."""
ALONE = ("tests/gpu/",)
"""Folders whose tests share nothing and take up to minutes each: distributed one by one."""
VARIANTS = {"tests/newcomer/test_newcomer.py": ("plain", "pinned")}
"""Files whose tests are grouped by a word in their parameters: only tests with the same word share something."""


def find_group(nodeid: str) -> str:
    """Returns the group that a test is distributed with, usually its file."""
    file, _, name = nodeid.partition("::")
    if file.startswith(ALONE):
        return nodeid
    folder = next((folder for folder in FOLDERS if file.startswith(folder)), "")
    if folder:
        return folder
    words = [word for word in VARIANTS.get(file, ()) if word in re.split(r"[\[\]-]", name)]
    return f"{file}[{words[0]}]" if words else TOGETHER.get(file, file)


def sort_by_cost(nodeids: Sequence[str], costs: dict[str, float]) -> list[str]:
    """Returns the tests by group, the longest group first; the given order holds within a group and among equals."""
    average = mean(costs.values()) if costs else 0.0
    groups: dict[str, list[str]] = {}
    for nodeid in nodeids:
        groups.setdefault(find_group(nodeid), []).append(nodeid)

    def estimate(group: str) -> float:
        files = {nodeid.partition("::")[0] for nodeid in groups[group]}
        return costs[group] if group in costs else sum(costs.get(file, average) for file in files)

    return [nodeid for group in sorted(groups, key=estimate, reverse=True) for nodeid in groups[group]]


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns a scheduler of xdist that keeps the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class CostScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return find_group(nodeid)

    config.option.loadscopereorder = False
    return CostScheduling(config, log)
