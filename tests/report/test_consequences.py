"""Which findings follow from another one, and how each format shows it."""

import json
from dataclasses import replace

import pytest

from ligerdiag.model.findings import CallPlace, Finding, Severity, SourceLine, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.case_places import Repository
from ligerdiag.report.causes import compute_causes, list_rules
from ligerdiag.report.html import render_case_html
from ligerdiag.report.json import render_json
from ligerdiag.report.junit import render_junit
from ligerdiag.report.markdown import render_github, render_markdown
from ligerdiag.report.sarif import render_sarif
from ligerdiag.report.terminal.concise import render_concise
from ligerdiag.report.terminal.full_report import render_terminal
from tests.report.html.pages import compute_text
from tests.report.html.view_samples import make_view
from tests.report.samples import make_case, make_finding, make_report

LINE = SourceLine(file="train.py", line=41, function="step")
ALLOWED = Suppression(kind=SuppressionKind.CONFIG, reason="known", where="pyproject.toml 1")
REPOSITORY = Repository(root="/repo", current="/repo")


def found(rule: str, number: int = 0, line: SourceLine = LINE, **changes: object) -> Finding:
    place = CallPlace(line=line, number=number)
    return make_finding(
        **{"rule": rule, "message": f"{rule} of write {number}", "source": line, "call": place, **changes}
    )


GONE = found("LD007", call=None, message="`ce_kernel` is not in the compiled program", outputs=(), lost_writes=(3, 4))
MISSED = found("LD002", number=3, message="`bias` does not depend on what `ce_kernel` writes")
ROOT = found("LD006", number=3, severity=Severity.WARNING, outputs=())
OUTPUTS = ("loss", "bias", "input")


def follow(*findings: Finding) -> list[tuple[str, str]]:
    """Returns the rule of each cause, and that of the cause it follows from."""
    causes = compute_causes(findings, OUTPUTS)
    return [(cause.rule, "" if cause.follows_from is None else cause.follows_from.rule) for cause in causes]


def test_a_read_that_misses_a_write_of_a_call_that_is_gone_follows_from_it() -> None:
    assert follow(MISSED, ROOT, GONE) == [("LD007", ""), ("LD002", "LD007")]


def test_a_read_that_misses_another_write_stands_on_its_own() -> None:
    other = found("LD002", number=5, line=replace(LINE, line=80))
    assert follow(other, GONE) == [("LD002", ""), ("LD007", "")]


def test_a_cause_with_one_other_read_stands_on_its_own() -> None:
    assert follow(MISSED, found("LD001", number=5), GONE) == [("LD001", ""), ("LD007", "")]


def test_a_late_read_does_not_follow_from_a_call_that_is_gone() -> None:
    assert follow(found("LD004", number=3), GONE) == [("LD004", ""), ("LD007", "")]


def test_nothing_follows_from_a_finding_that_is_allowed() -> None:
    assert follow(MISSED, replace(GONE, suppressed=ALLOWED)) == [("LD002", ""), ("LD007", "")]


def test_a_finding_that_is_allowed_still_follows() -> None:
    assert follow(replace(MISSED, suppressed=ALLOWED), GONE) == [("LD007", ""), ("LD002", "LD007")]


MERGED = found("LD008", number=1, instructions=("call.1", "call.2", "dot"))
ONE_CALL = found("LD008", number=1, instructions=("call.1",), lost_writes=(1, 0))


@pytest.mark.parametrize("rule", ["LD001", "LD003", "LD004"])
def test_a_read_between_two_calls_on_a_merged_value_follows_from_the_merge(rule: str) -> None:
    between = found(rule, instructions=("call.2", "call.1", "dot"))
    outside = found(rule, instructions=("call.2", "fusion", "dot"))
    assert follow(between, MERGED) == [("LD008", ""), (rule, "LD008")]
    assert follow(outside, MERGED) == [(rule, ""), ("LD008", "")]


def test_the_reads_of_a_call_that_was_merged_follow_from_the_merge() -> None:
    assert follow(found("LD002", number=1), ONE_CALL) == [("LD008", ""), ("LD002", "LD008")]
    assert follow(found("LD002", number=0, instructions=()), ONE_CALL) == [("LD008", ""), ("LD002", "LD008")]


def test_a_known_reader_of_the_call_that_was_kept_does_not_follow_from_the_merge() -> None:
    assert follow(found("LD002", number=0), ONE_CALL) == [("LD002", ""), ("LD008", "")]


ALIAS = found("LD018", call=None, severity=Severity.WARNING, instructions=("call.1",))
LOST = found("LD024", call=None, instructions=("tanh", "sine", "call.1"))


def test_a_value_lost_in_shared_bytes_follows_from_the_alias_of_its_reader() -> None:
    assert follow(LOST, ALIAS) == [("LD018", ""), ("LD024", "LD018")]
    assert follow(replace(LOST, kernel=""), ALIAS) == [("LD024", ""), ("LD018", "")]
    assert follow(replace(LOST, instructions=("tanh", "sine", "call.2")), ALIAS) == [("LD024", ""), ("LD018", "")]


def test_a_wrong_program_follows_from_a_workaround_by_the_same_measurement() -> None:
    measured = ("replay", "`bias` differs by 1.0e+00")
    rounded = found("LD012", call=None, severity=Severity.WARNING, evidence=(("added", "%add"), measured))
    wrong = found("LD016", call=None, evidence=(measured,))
    assert follow(wrong, rounded) == [("LD012", ""), ("LD016", "LD012")]
    assert follow(replace(wrong, evidence=(("replay", "other"),)), rounded) == [("LD016", ""), ("LD012", "")]


@pytest.mark.parametrize("rule", ["LD009", "LD005"])
def test_an_undeclared_write_is_one_cause_with_what_it_hits(rule: str) -> None:
    (cause,) = compute_causes([found("LD006", severity=Severity.WARNING, outputs=()), found(rule)], OUTPUTS)
    assert list_rules(cause) == (rule, "LD006")
    assert any(label == "note" and text.startswith("LD006") for label, text in cause.evidence)


def test_another_operand_is_another_cause() -> None:
    assert len(compute_causes([found("LD006", operand=1), found("LD009")], OUTPUTS)) == 2


CASE = make_case(
    "a",
    Status.FINDINGS,
    expected=None,
    findings=(MISSED, ROOT, GONE, found("LD013", line=replace(LINE, line=5), severity=Severity.WARNING)),
    outputs={"bias": Verdict.STALE},
    view=make_view(),
)
REPORT = make_report(CASE)


def allow(case: CaseReport, rule: str) -> CaseReport:
    return replace(case, findings=tuple(replace(f, suppressed=ALLOWED) if f.rule == rule else f for f in case.findings))


def test_the_terminal_indents_what_follows_beneath_its_cause() -> None:
    text = render_terminal(REPORT)
    lines = text.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("error[LD007]"))
    below = lines[lines.index("", place) + 1 :]
    assert below[0] == "   follows from it: error[LD002]: `bias` does not depend on what `ce_kernel` writes"
    assert all(line.startswith("   ") for line in below[: below.index("")])
    assert text.index("LD013") > text.index("LD002")


def test_the_terminal_shows_consequences_on_their_own_if_the_cause_is_allowed() -> None:
    text = render_terminal(make_report(allow(CASE, "LD007")))
    assert "\nerror[LD002]: `bias`" in text
    assert "follows from" not in text


def test_the_markdown_keeps_a_cause_and_its_consequences_in_one_block() -> None:
    page = render_markdown(REPORT, exit_code=1)
    block = next(part for part in page.split("```") if "error[LD007]" in part)
    assert "\n   follows from it: error[LD002]: " in block


def test_a_line_and_an_annotation_name_the_rule_that_they_follow_from() -> None:
    assert "error LD002 stale-copy: `bias` does not depend on what `ce_kernel` writes (follows from LD007) [a]" in (
        render_concise(REPORT)
    )
    words = "follows from: LD007 vanished-call: `ce_kernel` is not in the compiled program"
    assert words in render_github(REPORT, repository=REPOSITORY)


def test_junit_has_what_follows_beneath_its_cause() -> None:
    text = render_junit(REPORT, repository=REPOSITORY, fails=lambda case: True)
    assert text.index("error[LD007]") < text.index("follows from it: error[LD002]")


def test_the_json_gives_the_place_of_the_cause_and_loses_no_finding() -> None:
    (case,) = json.loads(render_json(REPORT))["cases"]
    assert [(f["rule"], f["follows_from"]) for f in case["findings"]] == [
        ("LD007", None),
        ("LD002", 0),
        ("LD013", None),
    ]
    assert case["findings"][1]["rules"] == ["LD002", "LD006"]


def test_sarif_gives_the_fingerprint_and_the_place_of_the_cause() -> None:
    (run,) = json.loads(render_sarif(REPORT, repository=REPOSITORY, exit_code=1))["runs"]
    gone, missed, other = run["results"]
    assert missed["properties"]["followsFrom"] == gone["partialFingerprints"]["ligerdiag/v1"]
    assert "followsFrom" not in gone["properties"] | other["properties"]
    texts = [one["message"]["text"] for one in missed["relatedLocations"]]
    assert "follows from LD007 vanished-call: `ce_kernel` is not in the compiled program" in texts


def test_the_page_names_the_cause_above_what_follows() -> None:
    page = render_case_html(CASE, REPORT)
    text = compute_text(page)
    assert text.index("error[LD007]") < text.index("error[LD002]")
    assert "follows from LD007 vanished-call: ce_kernel is not in the compiled program" in text


def test_cases_with_one_cause_share_it_and_what_follows() -> None:
    expected = [replace(CASE, id=name, status=Status.EXPECTED, expected="hazard") for name in ("a", "b")]
    text = render_terminal(make_report(*expected))
    assert text.count("follows from it: ") == 1
    assert len([line for line in text.splitlines() if line.split() == ["in:", "a,", "b"]]) == 3
