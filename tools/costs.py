"""The cost of the tests, from the JUnit file of a run: `python -m tools.costs junit.xml` writes tests/costs.json.

It prints a table by folder under tests/, for docs/measurements. Seconds are of wall time, with what a test's
fixtures took; those of a run beside other work are too long, and still say which files are the longest. Where the run noted
processor seconds (`tests/processor_time.py`), these count.
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
    """(seconds by file or by separately scheduled test; tests by folder)."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for suite in JUnitXml.fromfile(str(junit)):
        for test in suite:
            file = _find_file(test)
            seconds[find_group(f"{file}::{test.name}")] += read_seconds(test)
            tests[find_room(file)] += 1
    return seconds, tests


def read_seconds(test: TestCase) -> Any:
    """Those of a processor, where the run noted them; else of wall time."""
    noted = [float(one.value) for one in test.child(Properties) or () if one.name == PROPERTY and one.value]
    return noted[0] if noted else test.time or 0.0


def find_room(group: str) -> str:
    """The folder under tests/."""
    return group.split("/")[1]


def render_rooms(seconds: Counter[str], tests: Counter[str]) -> str:
    """A table in Markdown, the most expensive folder first."""
    rooms: Counter[str] = Counter()
    for group, cost in seconds.items():
        rooms[find_room(group)] += cost
    lines = [f"| {room} | {tests[room]} | {cost:.0f} |" for room, cost in rooms.most_common()]
    total = f"| all | {tests.total()} | {rooms.total():.0f} |"
    return "\n".join(["| room | tests | seconds |", "|---|---:|---:|", *lines, total, ""])


def _find_file(test: TestCase) -> str:
    """`tests/api/test_run.py` of the class name `tests.api.test_run`, behind which a class may stand."""
    parts = (test.classname or "").split(".")
    while parts and not (ROOT / "/".join(parts)).with_suffix(".py").exists():
        parts.pop()
    return "/".join(parts) + ".py"


def main(junit: Path) -> int:
    """Returns the exit code."""
    seconds, tests = add_up(junit)
    costs = {group: round(cost, 1) for group, cost in sorted(seconds.items())}
    COSTS.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(render_rooms(seconds, tests))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
