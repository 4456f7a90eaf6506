"""Computes the cost of the tests from the JUnit file of a run: `python -m tools.costs junit.xml` writes
tests/costs.json.

It prints a table by folder under tests/, for docs/measurements. Seconds are wall time and include a test's fixtures; if
the machine did other work, they are too long, but still show which files take longest. If the run recorded processor
seconds (`tests/processor_time.py`), these count instead.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from junitparser import JUnitXml, Properties, TestCase

from tests.processor_time import PROPERTY
from tests.scheduling import COSTS, find_group

ROOT = Path(__file__).parents[1]


def add_up(junit: Path) -> tuple[Counter[str], Counter[str]]:
    """Returns the seconds by file or by separately scheduled test, and the number of tests by folder."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for suite in JUnitXml.fromfile(str(junit)):
        for test in suite:
            file = _find_file(test)
            seconds[find_group(f"{file}::{test.name}")] += read_seconds(test)
            tests[find_folder(file)] += 1
    return seconds, tests


def read_seconds(test: TestCase) -> Any:
    """Returns the processor seconds if the run recorded them, else the wall seconds."""
    noted = [float(one.value) for one in test.child(Properties) or () if one.name == PROPERTY and one.value]
    return noted[0] if noted else test.time or 0.0


def find_folder(group: str) -> str:
    """Returns the folder under tests/."""
    return group.split("/")[1]


def render_folders(seconds: Counter[str], tests: Counter[str]) -> str:
    """Returns a table in Markdown, the most expensive folder first."""
    folders: Counter[str] = Counter()
    for group, cost in seconds.items():
        folders[find_folder(group)] += cost
    lines = [f"| {folder} | {tests[folder]} | {cost:.0f} |" for folder, cost in folders.most_common()]
    total = f"| all | {tests.total()} | {folders.total():.0f} |"
    return "\n".join(["| folder | tests | seconds |", "|---|---:|---:|", *lines, total, ""])


def _find_file(test: TestCase) -> str:
    """Returns `tests/api/test_run.py` for the class name `tests.api.test_run`, which may end with a class."""
    parts = (test.classname or "").split(".")
    while parts and not (ROOT / "/".join(parts)).with_suffix(".py").exists():
        parts.pop()
    return "/".join(parts) + ".py"


def main(junit: Path) -> int:
    """Returns the exit code."""
    seconds, tests = add_up(junit)
    costs = {group: round(cost, 1) for group, cost in sorted(seconds.items())}
    COSTS.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(render_folders(seconds, tests))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
