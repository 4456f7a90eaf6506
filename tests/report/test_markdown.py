"""The page of a job: cases that need attention come first, and no name is markup."""

import re
from dataclasses import replace

import pytest

from ligerdiag.model.findings import Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CheckReport, Coverage, Status
from ligerdiag.report.markdown import render_block, render_code, render_markdown
from tests.report.every_report import REPORTS
from tests.report.samples import IN_PLACE, make_case, make_finding, make_hostile_memory, make_memory, make_report

EVIL = "a|b\\|c`d``e<script>alert(1)</script>&amp; @ann #1 http://evil [x](y) *z*\n\n</details>\x1b[31m"


def strip_code(text: str) -> str:
    """Returns the text that Markdown interprets, without fenced blocks and code spans."""
    text = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.S | re.M)
    text = re.sub(r"<code>(?:[\w ]|&#\d+;)*</code>", "", text)
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_a_page_says_how_the_run_ended_and_is_well_formed(report: CheckReport) -> None:
    text = render_markdown(report, exit_code=1, meaning="findings")
    assert text.startswith("## ligerdiag\n")
    assert "Exit code 1: findings." in text
    assert text.count("<details>") == text.count("</details>") > 0


def test_cases_that_need_attention_come_first() -> None:
    cases = [make_case("well", findings=(make_finding(),)), make_case("ill", Status.UNEXPECTED, mismatch="m")]
    text = render_markdown(make_report(*cases), exit_code=1)
    attention, _, rest = text.partition("<details><summary>All cases (2)</summary>")
    assert "| `ill` | `h100` | UNEXPECTED |" in attention
    assert "`well`" not in attention
    assert "| `well` | `h100` | as expected |" in rest
    assert "Not listed: 1 finding in cases that are as expected." in text


def test_allowed_findings_are_counted() -> None:
    said = Suppression(kind=SuppressionKind.CONFIG, reason="r", where="w")
    case = make_case(status=Status.ALLOWED, expected=None, outputs={}, findings=(make_finding(suppressed=said),))
    text = render_markdown(make_report(case), exit_code=0)
    assert "Not listed: 1 finding allowed by suppressions with a reason." in text
    assert "Needs attention" not in text


def test_findings_are_quoted_as_the_terminal_has_them() -> None:
    case = make_case("a", Status.FINDINGS, expected=None, findings=(make_finding(),))
    text = render_markdown(make_report(case), exit_code=1)
    assert "```text\nerror[LD002]: gradient of `bias` reads a copy" in text
    assert "   in:    a\n```\n" in text


def test_the_end_of_a_log_is_quoted() -> None:
    text = render_markdown(make_report(make_case("a", Status.ERROR, error="aborted", log_tail="F1\nF2")), exit_code=3)
    assert "not-analysed: a on h100: aborted\n   log: F1\n   log: F2\n" in text


def test_no_name_is_markup() -> None:
    case = make_case(
        EVIL,
        Status.ERROR,
        target=EVIL,
        error=EVIL,
        log_tail=EVIL,
        outputs={EVIL: Verdict.STALE},
        findings=(make_finding(message=EVIL, kernel=EVIL, evidence=((EVIL, EVIL),)),),
        coverage=Coverage(not_covered=(EVIL,)),
    )
    text = render_markdown(make_report(case, targets=(EVIL,), notes=(EVIL,)), exit_code=3)
    left = strip_code(text)
    for markup in ("script", "@ann", "evil", "[x]", "*z*", "\x1b"):
        assert markup not in left
    assert left.count("</details>") == left.count("<details>")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {6}


@pytest.mark.parametrize("text", ["a", "`", "``a", "a`b", " a ", "|", "a\\|b", "```"])
def test_code_spans_can_contain_any_text(text: str) -> None:
    for in_table in (False, True):
        assert strip_code(render_code(text, in_table=in_table)) == ""


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    assert render_block(["````", "x"]).splitlines() == ["`````text", "````", "x", "`````"]


def test_a_page_that_would_be_too_long_lists_its_omissions() -> None:
    cases = [
        make_case(f"c[{n}]", Status.FINDINGS, expected=None, findings=(make_finding(message=f"m {n}"),))
        for n in range(300)
    ]
    report = make_report(*cases)
    assert len(render_markdown(report, exit_code=1).encode()) > 50_000
    text = render_markdown(report, exit_code=1, limit=50_000)
    assert len(text.encode()) <= 50_000
    assert "… and 200 more, not shown here." in text
    assert text.count("<details>") == text.count("</details>")
    assert "300 with findings and no expectation" in text
    assert len(render_markdown(report, exit_code=1, limit=100).encode()) <= 100


def test_an_empty_run_claims_nothing() -> None:
    text = render_markdown(make_report(), exit_code=5, meaning="nothing checked")
    assert "`nothing was checked`" in text
    assert "Exit code 5: nothing checked." in text


MEMORY = """\
| case | target | peak | arguments | temporaries | copied a call | at least | void donations |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `copies` | `h100` | 33.0 MiB | 24.0 MiB | 1.5 MiB | 16.0 MiB | 0.010 ms | 1 of 2, 4.0 MiB |
| `in place` | `h100` | 33.0 MiB | 24.0 MiB | 1.5 MiB | 0 bytes |  |  |
"""


def test_memory_is_a_sentence_and_a_folded_table() -> None:
    small = replace(IN_PLACE, peak=1024)
    cases = (make_case("in place", memory=IN_PLACE), make_case("copies", memory=make_memory()))
    text = render_markdown(make_report(*cases, make_case("small", memory=small), make_case("none")), exit_code=0)
    assert "Memory: `peak up to 33.0 MiB; 1 of 2 with copies that are not needed; 1 with void donations`\n" in text
    assert f"<details><summary>Peak, copies and donations (2 cases)</summary>\n\n{MEMORY}\n</details>" in text


def test_the_memory_of_one_case_is_the_line_of_the_terminal() -> None:
    text = render_markdown(make_report(make_case(memory=make_memory())), exit_code=0)
    assert "Memory: `peak 33.0 MiB (arguments 24.0, new outputs 8.0, temporaries 1.5); copies 16.0 MiB a call" in text


def test_no_name_in_memory_is_markup() -> None:
    text = render_markdown(make_report(make_case(EVIL, target=EVIL, memory=make_hostile_memory(EVIL))), exit_code=0)
    left = strip_code(text)
    for markup in ("script", "@ann", "evil", "[x]", "*z*", "\x1b"):
        assert markup not in left
    assert left.count("</details>") == left.count("<details>")
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {5, 9}
