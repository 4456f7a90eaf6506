"""JUnit XML: readers of pytest's files accept it, its counts are right, and nothing unknown passes."""

import re
from xml.etree import ElementTree

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from ligerdiag.cli.exit_codes import ExitCode, FailOn, compute_exit_code, fails_run
from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Status
from ligerdiag.report.case_places import Repository
from ligerdiag.report.junit import render_junit
from tests.report.every_report import REPORTS
from tests.report.samples import make_case, make_finding, make_report

REPOSITORY = Repository(root="/repo", current="/repo")
ATTRIBUTES = {
    "testsuites": ({"name"}, {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
    ),
    "properties": (set(), set()),
    "property": ({"name", "value"}, {"name", "value"}),
    "testcase": ({"name"}, {"name", "time", "classname"}),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "skipped": (set(), {"type", "message"}),
    "system-out": (set(), set()),
}
"""Element to the attributes that it must have and may have: those of the xunit schema of pytest's own tests."""
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
SECONDS = re.compile(r"[0-9]+(\.[0-9]{0,3})?")
FRESH = {"a": Verdict.FRESH}
MODES = [(fail_on, strict) for fail_on in FailOn for strict in (False, True)]


def render(report: CheckReport, *, fail_on: FailOn = FailOn.WARNING, strict: bool = False) -> str:
    return render_junit(report, repository=REPOSITORY, fails=lambda case: fails_run(case, fail_on), strict=strict)


def judge(case: CaseReport, *, strict: bool = False) -> str:
    """`passed`, or the result's tag and type."""
    ((test,),) = JUnitXml.fromstring(render(make_report(case), strict=strict).encode())
    if test.is_passed:
        return "passed"
    (result,) = test.result
    return f"{result._tag} {result.type}"


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
@pytest.mark.parametrize("strict", [False, True])
def test_the_form_matches_the_schema_of_pytest_s_own_tests(report: CheckReport, strict: bool) -> None:
    for element in ElementTree.fromstring(render(report, strict=strict)).iter():
        required, known = ATTRIBUTES[element.tag]
        assert required <= set(element.attrib) <= known
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        assert SECONDS.fullmatch(element.get("time", "0"))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_counts_match_the_tests(report: CheckReport) -> None:
    read = JUnitXml.fromstring(render(report).encode())
    about_run = len(report.unused_suppressions) + report.interrupted
    assert sum(len(list(suite)) for suite in read) == len(report.cases) + about_run
    for suite in read:
        results = [result for test in suite for result in test.result]
        for kind, said in ((Failure, suite.failures), (Error, suite.errors), (Skipped, suite.skipped)):
            assert said == sum(isinstance(result, kind) for result in results)
        assert suite.tests == len(list(suite))
    assert (read.tests, read.failures, read.errors) == (
        sum(suite.tests for suite in read),
        sum(suite.failures for suite in read),
        sum(suite.errors for suite in read),
    )


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
@pytest.mark.parametrize(("fail_on", "strict"), MODES)
def test_a_test_fails_exactly_if_the_run_fails(report: CheckReport, fail_on: FailOn, strict: bool) -> None:
    read = JUnitXml.fromstring(render(report, fail_on=fail_on, strict=strict).encode())
    code = compute_exit_code(report, fail_on=fail_on, strict=strict)
    well = code in (ExitCode.AS_EXPECTED, ExitCode.NOTHING_CHECKED)
    assert (read.failures + read.errors == 0) == well
    if code is ExitCode.NOTHING_CHECKED:
        assert all(test.is_skipped for suite in read for test in suite)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (make_case(), "passed"),
        (make_case(status=Status.CLEAN, expected=None, outputs=FRESH), "passed"),
        (make_case(status=Status.ALLOWED, expected=None, outputs=FRESH), "passed"),
        (
            make_case(status=Status.FINDINGS, expected=None, findings=(make_finding(),), outputs=FRESH),
            "failure findings",
        ),
        (
            make_case(
                status=Status.FINDINGS, expected=None, findings=(make_finding(severity=Severity.NOTE),), outputs=FRESH
            ),
            "passed",
        ),
        (make_case(status=Status.UNEXPECTED, mismatch="m"), "failure unexpected-verdict"),
        (make_case(status=Status.ERROR, error="e"), "error not-analysed"),
        (make_case(status=Status.DISAGREEMENT), "error disagreement"),
        (REPORTS["a replay that died"].cases[0], "error no-numbers"),
        (make_case(status=Status.NOTHING, expected=None, outputs=FRESH), "skipped nothing to check"),
        (make_case(status=Status.INCONCLUSIVE), "skipped inconclusive"),
    ],
)
def test_a_status_is_a_result(case: CaseReport, word: str) -> None:
    assert judge(case) == word


def test_inconclusive_is_a_failure_of_a_strict_run_and_never_a_pass() -> None:
    case = REPORTS["unknown outputs"].cases[0]
    assert judge(case, strict=True) == "failure inconclusive"
    for strict in (False, True):
        text = render(make_report(case), strict=strict)
        assert "`a` could not be decided; not covered: a kernel that could not be followed" in text


def test_a_failure_has_the_same_text_as_on_the_terminal() -> None:
    case = make_case("a", Status.FINDINGS, expected=None, findings=(make_finding(),))
    ((test,),) = JUnitXml.fromstring(render(make_report(case)).encode())
    assert test.result[0].message.startswith("LD002 gradient of `bias` reads a copy")
    assert "  --> train.py:41" in test.result[0].text
    assert "   write:" in test.result[0].text


def test_a_passing_test_keeps_its_findings() -> None:
    ((test,),) = JUnitXml.fromstring(render(make_report(make_case(findings=(make_finding(),)))).encode())
    assert test.is_passed
    assert "error[LD002]" in test.system_out


def test_a_suite_is_a_target_and_no_case_is_lost() -> None:
    report = make_report(make_case(target="a100"), make_case(target="h100"), make_case(target="odd"))
    read = JUnitXml.fromstring(render(report).encode())
    assert [(suite.name, len(list(suite))) for suite in read] == [
        ("ligerdiag h100", 1),
        ("ligerdiag a100", 1),
        ("ligerdiag odd", 1),
    ]


@pytest.mark.parametrize(
    ("source", "name"),
    [("/repo/cases/seed.py", "cases.seed"), ("/elsewhere/seed.py", "flce"), ("", "flce")],
)
def test_a_test_has_the_name_that_pytest_would_give_it(source: str, name: str) -> None:
    ((test,),) = JUnitXml.fromstring(render(make_report(make_case(source=source))).encode())
    assert (test.classname, test.name) == (name, "flce[hidden]")


def test_characters_that_xml_does_not_allow_are_dropped() -> None:
    evil = "a\x00b\x1b[31mc\x08d\ufffee\udcfff]]>&<"
    case = make_case(
        evil, Status.ERROR, error=evil, log_tail=f"{evil}\n{evil}", coverage=Coverage(not_covered=(evil,)), target=evil
    )
    found = make_case("b", Status.FINDINGS, expected=None, findings=(make_finding(message=evil),))
    read = JUnitXml.fromstring(render(make_report(case, found, toolchain=evil)).encode("utf-8"))
    assert "abcdef]]>&<" in [test.name for suite in read for test in suite]
