"""The troubles of a report: each once, and none in a report without problems."""

import pytest

from ligerdiag.model.findings import Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, Coverage, Status
from ligerdiag.report.status import compute_excuse, list_unexcused
from ligerdiag.report.terminal.diagnostics import PAGES, TroubleKind, list_troubles
from ligerdiag.source_text import parse_place
from tests.report.samples import make_case, make_device, make_finding


def list_kinds(case: CaseReport) -> list[str]:
    return [trouble.kind.value for trouble in list_troubles(case)]


def test_every_kind_has_a_page() -> None:
    assert set(PAGES) == set(TroubleKind)


def test_an_unknown_output_is_a_trouble_unless_the_case_expects_it() -> None:
    outputs = {"a": Verdict.UNKNOWN, "b": Verdict.STALE}
    wrong = make_case(status=Status.UNEXPECTED, mismatch="m", outputs=outputs)
    assert list_kinds(wrong) == ["unexpected-verdict", "inconclusive"]
    assert list_troubles(wrong)[1].outputs == ("a",)
    assert list_kinds(make_case(outputs=outputs, expected={"a": "unknown", "b": "stale"})) == []


def test_incomplete_coverage_is_the_reason_of_an_inconclusive_case() -> None:
    case = make_case(status=Status.INCONCLUSIVE, outputs={}, coverage=Coverage(not_covered=("a loop", "a sort")))
    (trouble,) = list_troubles(case)
    assert trouble.message == "not everything could be decided"
    assert trouble.evidence == (("not covered", "a loop"), ("not covered", "a sort"))


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [(Verdict.STALE, Severity.ERROR), (Verdict.CLOBBERED, Severity.ERROR), (Verdict.LATENT, Severity.WARNING)],
)
def test_a_verdict_without_a_finding_has_the_severity_of_its_exit_code(verdict: Verdict, severity: Severity) -> None:
    (trouble,) = list_troubles(make_case(status=Status.FINDINGS, expected=None, outputs={"a": verdict}))
    assert (trouble.kind, trouble.severity) == (TroubleKind.UNEXPLAINED, severity)


def test_a_verdict_that_a_finding_explains_is_not_a_trouble() -> None:
    findings = (make_finding(outputs=("a",)),)
    assert (
        list_kinds(make_case(status=Status.FINDINGS, expected=None, outputs={"a": Verdict.STALE}, findings=findings))
        == []
    )


def test_a_wrong_verdict_on_the_device_alone_is_a_trouble() -> None:
    device = make_device(verdicts={"a": "stale", "b": "stale", "c": "fresh"})
    outputs = {"a": Verdict.FRESH, "b": Verdict.STALE, "c": Verdict.FRESH}
    findings = (make_finding(outputs=("b",)),)
    case = make_case(status=Status.FINDINGS, expected=None, outputs=outputs, findings=findings, device=device)
    (trouble,) = list_troubles(case)
    assert trouble.message == "`a` is stale on NVIDIA H200, and fresh for h100"


def test_a_disagreement_that_contradicts_the_expectation_shows_both() -> None:
    assert list_kinds(make_case(status=Status.DISAGREEMENT, mismatch="m")) == ["disagreement", "unexpected-verdict"]


def test_a_finding_counts_unless_it_is_allowed_or_expected() -> None:
    said = Suppression(kind=SuppressionKind.CONFIG, reason="known", where="w")
    plain, allowed, drift = make_finding(), make_finding(suppressed=said), make_finding(rule="LD015")
    expected = make_case(findings=(plain, allowed, drift), expected="hazard")
    assert [compute_excuse(expected, one) for one in expected.findings] == ["the case expects it: hazard", "known", ""]
    assert list_unexcused(expected) == (drift,)
    found = make_case(status=Status.FINDINGS, expected=None, findings=(plain, allowed, drift))
    assert list_unexcused(found) == (plain, drift)


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [
        ("a.py:7", "a.py", 7),
        ("a:b.py:7", "a:b.py", 7),
        ("a.py", "a.py", 0),
        (":7", ":7", 0),
        ("a:" + "9" * 5000, "", 0),
    ],
)
def test_a_rendered_place_is_parsed_again(text: str, file: str, line: int) -> None:
    place = parse_place(text)
    assert (place.file, place.line) == (file or text, line)
