"""The reproducers of docs/reports/ confirm the reports, in the schedule and in numbers, and the pages are theirs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.comparisons import Axis
from ligerdiag.report.issue.hlo_excerpt import MOST_LINES
from tools.written_reports import load_table, render_page

REPORTS = Path(__file__).parents[2] / "docs" / "reports"
FRESH = Verdict.FRESH
REPRODUCERS: dict[str, tuple[dict[str, Verdict], set[str]]] = {
    "workspace": ({"first": FRESH, "second": Verdict.CLOBBERED}, {"LD004", "LD006", "LD008"}),
    "workspace_mended": ({"first": FRESH, "second": FRESH}, set()),
    "add_eight": ({"output": Verdict.UNKNOWN}, {"LD013"}),
    "add_all": ({"output": FRESH}, set()),
    "stacked": ({"doubled": Verdict.STALE}, {"LD022"}),
    "halves": ({"doubled": Verdict.STALE}, {"LD022"}),
    "moved_ref": ({"loss": Verdict.STALE, "gradient": Verdict.STALE}, {"LD023"}),
}
"""Case name to the verdicts of its outputs and its rules; tests/hazards/test_newest_examples.py uses them too."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    options = api.CheckOptions(
        selectors=tuple(str(path) for path in sorted(REPORTS.glob("*.py")) if "import Arg, Case" in path.read_text()),
        view=True,
        cache_directory=tmp_path_factory.mktemp("cache"),
    )
    return api.check(options)


@pytest.fixture(scope="module")
def cases(report: CheckReport) -> dict[str, CaseReport]:
    return {case.id: case for case in report.cases}


def select(report: CheckReport, name: str) -> CheckReport:
    return replace(report, cases=tuple(case for case in report.cases if case.id == name))


def describe(report: CheckReport, name: str) -> str:
    return api.describe_issue(select(report, name))


@pytest.mark.parametrize(
    ("name", "verdicts", "rules"), [(name, verdicts, rules) for name, (verdicts, rules) in REPRODUCERS.items()]
)
def test_a_reproducer_has_the_report_s_findings(
    cases: dict[str, CaseReport], name: str, verdicts: dict[str, Verdict], rules: set[str]
) -> None:
    case = cases[name]
    assert not case.error, case.log_tail
    assert case.outputs == verdicts
    assert {finding.rule for finding in case.findings} == rules
    assert not case.disagreements


CHECKED = {
    name: entry["command"].split()[2].partition("::")[2]
    for name, entry in load_table().items()
    if entry["command"].startswith("ligerdiag check ")
}
"""From the name of a page that shows a whole program to the case that it is about."""


@pytest.mark.parametrize("page", CHECKED)
def test_a_page_is_what_the_report_says_today(report: CheckReport, page: str) -> None:
    def drop(text: str) -> str:  # bisections, which take minutes, and the versions
        return re.sub(
            r"^## (?:What changes it|Versions|To reproduce)\n.*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE
        )

    written = (REPORTS / f"{page}.md").read_text(encoding="utf-8")
    assert drop(render_page(load_table()[page], describe(report, CHECKED[page]))) == drop(written)


def test_a_report_shows_the_write_the_read_and_their_bytes(report: CheckReport, cases: dict[str, CaseReport]) -> None:
    text = describe(report, "workspace")
    (hlo,) = re.findall(r"## HLO\n.*?```text\n(.*?)```", text, re.DOTALL)
    lines = [line.strip() for line in hlo.splitlines() if "custom-call" in line or "loop_broadcast_fusion =" in line]
    overwritten, first, second = lines
    places = cases["workspace"].view.places  # type: ignore[union-attr]
    place = places["loop_broadcast_fusion"][0]
    bytes_ = f"allocation {place.allocation}, offset {place.offset}, size 32"
    assert overwritten.endswith(f"// the value that is overwritten; {bytes_}")
    assert "// OVERWRITES OPERAND 1; reads the old contents, as it should; allocation" in first
    assert "// READS THE NEW CONTENTS; OVERWRITES OPERAND 1; allocation" in second
    assert len(hlo.splitlines()) <= MOST_LINES


def test_expected_and_actual_are_values_of_the_replay(report: CheckReport, cases: dict[str, CaseReport]) -> None:
    replay = cases["workspace"].replay
    assert replay is not None
    worst = replay.outputs["second"].worst
    assert worst is not None
    assert (worst.dtype, worst.shape, len(worst.index)) == ("float32", (8,), 1)
    assert worst.actual == pytest.approx(worst.intended + 1, abs=1e-6)  # the second call starts to count from 1
    assert f"| [{worst.index[0]}] | {worst.intended:.7g} | {worst.actual:.7g} | 1.4 | 0.0001 |" in describe(
        report, "workspace"
    )


def test_nothing_is_varied_where_no_output_is_wrong(report: CheckReport) -> None:
    with pytest.raises(
        InputError, match="compares the outputs of `add_eight`, and the schedule makes none of them wrong"
    ):
        api.bisect_subject(select(report, "add_eight"), (Axis.TARGETS,), api.CheckOptions())


@pytest.mark.nightly
def test_another_gpu_makes_no_difference_to_merged_calls(report: CheckReport, tmp_path: Path) -> None:
    one = select(report, "workspace")
    bisections = api.bisect_subject(one, (Axis.TARGETS,), api.CheckOptions(cache_directory=tmp_path))
    said = (
        "- other GPUs: wrong with `h100`, `a100`, `b200` and `h200`.\n\nNot tried: XLA's passes, XLA's flags and other"
    )
    assert said in api.describe_issue(one, bisections=bisections)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stacked", "To XLA (openxla/xla)."),
        ("moved_ref", "To JAX (jax-ml/jax)."),
        ("add_eight", "To the author of the kernel `add_kernel`."),
        ("workspace", "To the author of the code that calls the kernel `count_kernel`."),
    ],
)
def test_a_report_goes_to_those_who_can_mend_it(report: CheckReport, name: str, said: str) -> None:
    assert said in describe(report, name)
