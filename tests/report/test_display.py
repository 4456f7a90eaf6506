"""`print` and a notebook show each record that ligerdiag's functions return, whatever it holds."""

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest

import ligerdiag.api  # noqa: F401 - gives the records their renderers
from ligerdiag.model import shown
from ligerdiag.model.findings import Attribution, OpaqueReplay, Replay, ReplayState, Severity, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.compared.report_comparison import compare_reports, make_side
from ligerdiag.report.comparisons import Axis, Bisection, DifferenceReport
from ligerdiag.report.html.fragment import MAX_CASES, MAX_FINDINGS, MAX_OUTPUTS
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.text import compute_printable
from tests.report.every_report import REPORTS
from tests.report.samples import make_case, make_finding, make_numbers, make_replay, make_report

VOID = {"br"}
ALLOWED = {"div", "b", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "br"}


class Piece(HTMLParser):
    """A piece of HTML, in which each element is closed and none loads or runs anything."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= {"style", "open"}
        assert not any("url" in (value or "") for _, value in attrs)
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def show(record: CaseReport | CheckReport) -> str:
    return Piece(record._repr_html_()).text


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_can_be_printed_and_shown(name: str) -> None:
    report = REPORTS[name]
    assert f"{report}\n".startswith(render_terminal(report))
    assert "\n" not in repr(report)
    shown = show(report)
    for case in report.cases:
        assert compute_printable(case.id) in str(case)
        assert re.match(r"<CaseReport \S.* on \S+: [^\n]*>\Z", repr(case))
        status = "not run" if case.status is Status.NOT_CHECKED else case.status.value
        assert status in show(case)
        assert len(report.cases) > MAX_CASES or f"{compute_printable(case.id)} on {case.target}: {status}" in shown


def test_the_text_of_a_case_is_the_terminal_s_for_this_case_alone() -> None:
    run = make_report(make_case("one"), make_case("two"), notes=("declared: writes 0",))
    alone = replace(run, cases=run.cases[:1])
    case = replace(run.cases[0], run=replace(run, cases=()))
    assert str(case) == str(alone)
    assert str(case).startswith(render_terminal(alone))
    assert "note: declared: writes 0" in str(case)
    assert "declared: writes 0" in show(case)


@pytest.mark.parametrize(
    ("replay", "basis"),
    [
        (None, "alone, without numbers"),
        (Replay(state=ReplayState.TOO_LARGE), "alone, without numbers"),
        (Replay(state=ReplayState.DONE), "and numbers (1 replayed, of 2)"),
        (
            Replay(state=ReplayState.NOT_COVERED, opaque=OpaqueReplay(state=ReplayState.DONE)),
            "and numbers (1 replayed with opaque functions, of 2)",
        ),
    ],
)
def test_the_last_line_says_what_the_verdicts_rest_on(replay: Replay | None, basis: str) -> None:
    report = make_report(make_case("one", replay=replay), make_case("two", replay=None))
    assert str(report).splitlines()[-1] == f"verdicts rest on: analysis of the schedule {basis}"


def test_a_line_says_verdicts_from_the_worst_on_and_rules() -> None:
    outputs = {"a": Verdict.FRESH, "b": Verdict.STALE, "c": Verdict.FRESH}
    case = make_case("step", Status.FINDINGS, outputs=outputs, findings=(make_finding(), make_finding(rule="LD006")))
    assert repr(case) == "<CaseReport step on h100: findings; 1 stale, 2 fresh; 2 findings (LD002, LD006)>"
    failed = make_case("step", Status.ERROR, outputs={}, error="it\n\x1b[31mbroke")
    assert repr(failed) == "<CaseReport step on h100: could not analyse; it broke>"
    report = make_report(case, failed)
    assert repr(report) == "<CheckReport of 2 case reports on h100: 1 findings, 1 could not analyse>"
    assert repr(make_report()) == "<CheckReport of 0 case reports on h100: none>"


def test_html_has_the_verdicts_the_findings_and_their_remedies() -> None:
    outputs = {"a": Verdict.FRESH, "b": Verdict.STALE}
    finding = make_finding(outputs=("b",), message="`b` is old", help="declare `x`")
    numbers = make_replay({"b": make_numbers(Attribution.STALE, error=0.5)})
    shown = show(make_case("step", Status.FINDINGS, outputs=outputs, findings=(finding,), replay=numbers))
    assert "step on h100: findings" in shown
    assert re.search(r"b\s*STALE\s*stale: relative error 0.5", shown)
    assert "error[LD002] b is old" in shown
    assert "help: declare x" in shown
    assert shown.index("STALE") < shown.index("fresh")


def test_html_escapes_names_and_drops_control_characters() -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    outputs = {evil: Verdict.STALE}
    finding = make_finding(message=f"`{evil}`", help=evil, outputs=(evil,), evidence=((evil, evil),))
    case = make_case(evil, Status.FINDINGS, outputs=outputs, findings=(finding,))
    page = case._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "<script>alert(1)</script>" in Piece(page).text


def test_an_unknown_output_is_never_green() -> None:
    case = make_case("step", Status.INCONCLUSIVE, outputs={"a": Verdict.UNKNOWN, "b": Verdict.FRESH})
    shown = show(case)
    assert "UNKNOWN" in shown.upper()
    assert "help: read the lines `not covered`" in shown


def test_long_reports_are_cut_and_say_so() -> None:
    outputs = {f"o{number}": Verdict.STALE for number in range(MAX_OUTPUTS + 3)}
    findings = tuple(
        make_finding(rule="LD006", message=f"finding {'x' * number}", severity=Severity.ERROR, call=None)
        for number in range(MAX_FINDINGS + 2)
    )
    shown = show(make_case("step", Status.FINDINGS, outputs=outputs, findings=findings))
    assert "3 more outputs" in shown
    assert "2 more findings: print(report)" in shown
    cases = [make_case(f"case{number}", Status.CLEAN) for number in range(MAX_CASES + 1)]
    shown = show(make_report(*cases, make_case("worst", Status.FINDINGS)))
    assert "worst on h100: findings" in shown
    assert "2 more cases" in shown


def test_comparisons_are_shown_as_text() -> None:
    sides = (make_side(make_report(make_case("one")), label) for label in ("old", "new"))
    comparison = compare_reports(*sides)
    bisection = Bisection(case_id="<one>", target="h100", toolchain="default", axis=Axis.FLAGS, answers=("no flag",))
    difference = DifferenceReport(differences=())
    assert repr(comparison) == "<ReportComparison of 1 case: 1 same>"
    assert repr(bisection) == "<Bisection of <one> over flags: no flag>"
    assert repr(difference) == "<DifferenceReport of 0 programs>"
    for record in (comparison, bisection, difference):
        assert str(record)
        assert Piece(record._repr_html_()).text.strip() == str(record).strip()


def test_a_record_without_renderers_shows_its_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "_renderers", {})
    report = make_report(make_case("a<b"))
    assert str(report) == repr(report)
    assert report._repr_html_() == f"<pre>{escape(repr(report))}</pre>\n"
