"""How tests are grouped and ordered for distribution, and where their costs come from."""

from pathlib import Path

import pytest

from tests.scheduling import find_group, sort_by_cost
from tools.costs import add_up, render_folders

JUNIT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.tools.test_costs" name="test_a" time="1.5" />
<testcase classname="tests.tools.test_costs.TestB" name="test_b[x]" time="9"><properties>
<property name="other" value="x" /><property name="processor_seconds" value="2.5" /></properties></testcase>
<testcase classname="tests.newcomer.test_newcomer" name="test_c[plain-a.py::b]" time="10" />
<testcase classname="tests.newcomer.test_newcomer" name="test_c[pinned-a.py::b]" time="20" />
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/hlo/test_memory.py::test_a[x]", "tests/hlo/test_memory.py"),
        ("tests/api/test_readme.py::test_a", "tests/api/test_all_cases.py"),
        ("tests/bisect/test_edges.py::test_a", "tests/bisect/"),
        ("tests/docs/test_commands.py::test_a[x.md]", "tests/docs/test_commands.py"),
        ("tests/gpu/test_a.py::test_b[c[hidden]]", "tests/gpu/test_a.py::test_b[c[hidden]]"),
        ("tests/newcomer/test_newcomer.py::test_a[plain-b.py::c]", "tests/newcomer/test_newcomer.py[plain]"),
        ("tests/newcomer/test_newcomer.py::test_a[pinned]", "tests/newcomer/test_newcomer.py[pinned]"),
    ],
)
def test_tests_are_grouped_by_file_unless_they_share_more_or_less(nodeid: str, group: str) -> None:
    assert find_group(nodeid) == group


def test_the_longest_file_comes_first_and_an_unmeasured_one_counts_as_average() -> None:
    costs = {"tests/a/test_a.py": 1.0, "tests/b/test_b.py": 9.0}
    nodeids = ["tests/a/test_a.py::x", "tests/n/test_n.py::x", "tests/b/test_b.py::z", "tests/b/test_b.py::y"]
    assert sort_by_cost(nodeids, costs) == [nodeids[2], nodeids[3], nodeids[1], nodeids[0]]
    assert sort_by_cost(nodeids, {}) == nodeids


def test_costs_are_summed_by_group_and_by_folder(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    seconds, tests = add_up(tmp_path / "junit.xml")
    newcomer = "tests/newcomer/test_newcomer.py"
    assert seconds == {"tests/tools/test_costs.py": 4.0, f"{newcomer}[plain]": 10.0, f"{newcomer}[pinned]": 20.0}
    assert render_folders(seconds, tests).splitlines()[2:] == [
        "| newcomer | 2 | 30 |",
        "| tools | 2 | 4 |",
        "| all | 4 | 34 |",
    ]
