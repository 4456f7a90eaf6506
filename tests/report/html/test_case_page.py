"""Properties of the page of every case."""

import re
from html import unescape
from pathlib import Path

import pytest

from ligerdiag.model.findings import (
    Attribution,
    Finding,
    ReplayState,
    Severity,
    SourceLine,
    Suppression,
    SuppressionKind,
    Verdict,
)
from ligerdiag.model.report import CaseReport, Coverage, Disagreement, Status
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ReadKind
from ligerdiag.report.html import render_case_html
from ligerdiag.report.rule_page import compute_rule_address
from ligerdiag.rules.registry import RULES
from tests.report.html.pages import compute_text, read
from tests.report.html.view_samples import make_accesses, make_buffer, make_step, make_view
from tests.report.samples import (
    make_case,
    make_device,
    make_finding,
    make_hostile_memory,
    make_memory,
    make_refused,
    make_replay,
    make_report,
)

EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\x1b[31m\u202e"
WHOLE = make_case(
    view=make_view(), findings=(make_finding(),), replay=make_replay(), device=make_device(), memory=make_memory()
)
ALLOWED = make_finding(suppressed=Suppression(kind=SuppressionKind.CONFIG, reason="known", where="pyproject.toml 1"))
CASES: dict[str, CaseReport] = {
    "whole": WHOLE,
    "without view": make_case(findings=(make_finding(),)),
    "nothing": make_case(status=Status.NOTHING, outputs={}, coverage=Coverage(), expected=None),
    "error": make_case(
        status=Status.ERROR, outputs={}, error="XLA aborted", log_tail="one\ntwo", expected=None, coverage=Coverage()
    ),
    "unknown": make_case(
        status=Status.INCONCLUSIVE,
        outputs={"loss": Verdict.UNKNOWN},
        view=make_view(buffers=(make_buffer(unknown=True, is_performed=False, allocation=None),), accesses=()),
    ),
    "empty view": make_case(view=make_view(steps=(), accesses=(), outputs=(), buffers=(), anchors=(), text=())),
    "disagreement": make_case(
        status=Status.DISAGREEMENT,
        disagreements=(
            Disagreement(
                output="loss",
                static=Verdict.FRESH,
                numbers=Attribution.STALE,
                message="`loss` is both",
                evidence=(("static", "fresh"),),
            ),
        ),
    ),
    "unexpected": make_case(status=Status.UNEXPECTED, mismatch="expected fresh", expected={"*": "fresh"}),
    "allowed": make_case(status=Status.ALLOWED, findings=(ALLOWED,), expected=None),
    "refused replay": make_case(replay=make_refused(ReplayState.TOO_LARGE, "needs 6 GiB")),
}


PAGES = {compute_rule_address(rule) for rule in RULES}


def render(case: CaseReport) -> str:
    return render_case_html(case, make_report(case))


@pytest.mark.parametrize("name", CASES)
def test_every_page_is_well_formed(name: str) -> None:
    reader = read(render(CASES[name]))
    assert reader.trouble == []
    assert len(reader.ids) == len(set(reader.ids))
    assert reader.tags.count("h1") == 1


@pytest.mark.parametrize("name", CASES)
def test_every_link_has_a_target_in_the_page_or_is_the_index(name: str) -> None:
    reader = read(render(CASES[name]))
    inner = {link.removeprefix("#") for link in reader.links if link.startswith("#")}
    assert inner <= set(reader.ids)
    assert {link for link in reader.links if not link.startswith("#")} - PAGES == {"index.html", "data:,"}


@pytest.mark.parametrize("name", CASES)
def test_no_page_names_an_address_other_than_those_of_rules(name: str) -> None:
    page = render(CASES[name])
    for address in PAGES:
        page = page.replace(f'<a href="{address}" rel="noreferrer">', "<a>")
    without_hashes = re.sub(r"sha256-[\w+/]+=*", "", page)  # of the script and the styles: any letters
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", without_hashes)
    assert "default-src 'none'" in unescape(page)


@pytest.mark.parametrize("name", CASES)
def test_no_page_has_a_handler_in_an_attribute(name: str) -> None:
    reader = read(render(CASES[name]))
    assert reader.handlers == []
    assert reader.tags.count("script") <= 3


def test_names_that_are_markup_are_text() -> None:
    steps = tuple(make_step(n, name=f"%{EVIL}{n}", text=EVIL, op_name=EVIL, fused=(EVIL,)) for n in (7, 9))
    hostile = make_case(
        EVIL,
        target=EVIL,
        about=EVIL,
        expected={EVIL: EVIL},
        outputs={EVIL: Verdict.STALE},
        findings=(
            make_finding(
                message=EVIL, outputs=(EVIL,), evidence=((EVIL, EVIL),), help=EVIL, source=SourceLine(file=EVIL, line=1)
            ),
        ),
        coverage=Coverage(not_covered=(EVIL,)),
        error=EVIL,
        log_tail=EVIL,
        mismatch=EVIL,
        artifact=EVIL,
        view=make_view(
            module=EVIL,
            steps=steps,
            buffers=(make_buffer(value=EVIL, kernel=EVIL, shape=EVIL),),
            text=(EVIL,),
            notes=(EVIL,),
        ),
        memory=make_hostile_memory(EVIL),
    )
    clean = read(render(WHOLE))
    page = render(hostile)
    reader = read(page)
    assert reader.trouble == []
    assert set(reader.tags) <= set(clean.tags) | {"details", "pre"}
    assert "alert(1)" in "".join(reader.text)
    assert not re.search(r"<script>alert", page)
    assert "{{ 7 * 7 }}" in "".join(reader.text)
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_name_cannot_end_the_script_that_holds_the_module() -> None:
    page = render(make_case(view=make_view(text=("</script><b>out</b>",))))
    assert "<b>out" not in page
    assert read(page).trouble == []


def test_rendering_is_the_same_every_time() -> None:
    assert render(WHOLE) == render(WHOLE)


def test_a_person_reads_which_outputs_are_wrong_and_why() -> None:
    text = compute_text(render(WHOLE))
    assert "1 of 4 outputs is wrong (stale): input" in text
    assert "overwrites its operand behind XLA's back, and XLA reads it too early" in text


def test_a_person_reads_the_rule_the_place_and_the_remedy() -> None:
    text = compute_text(render(WHOLE))
    assert "error[LD002]" in text
    assert "train.py:41" in text
    assert "return the gradient as a declared output" in text
    assert "ligerdiag explain LD002" in text


def test_a_page_quotes_the_user_s_line_if_the_file_is_here(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("\n" * 40 + "    loss = flce(x, w) if x < y else 0\n", encoding="utf-8")
    finding = make_finding(source=SourceLine(file=str(file), line=41))
    assert "loss = flce(x, w) if x &lt; y else 0" in render(
        make_case(findings=(finding,), source_roots=(str(tmp_path),))
    )
    assert "loss = flce" not in render(make_case(findings=(finding,)))


def test_unknown_comes_first_and_never_counts_as_right() -> None:
    text = compute_text(render(CASES["unknown"]))
    assert "the output could not be decided" in text
    assert "this is no all-clear" in text
    assert "it is unknown whether the kernel writes it" in text
    assert "is fresh" not in text


def test_an_inconclusive_case_with_fresh_outputs_is_not_green() -> None:
    page = render(make_case(status=Status.INCONCLUSIVE, outputs={"loss": Verdict.FRESH}))
    assert "inconclusive: the output is fresh" in page
    assert '<section class="story v-unknown"' in page


def test_the_first_screen_shows_the_gaps_in_coverage() -> None:
    page = render(make_case(status=Status.INCONCLUSIVE, coverage=Coverage(not_covered=("an infeed",))))
    assert page.index("an infeed") < page.index('id="findings"')


def test_a_page_shows_the_log_of_a_case_that_could_not_be_analysed() -> None:
    text = compute_text(render(CASES["error"]))
    assert "could not analyse" in text
    assert "XLA aborted" in text
    assert "one two" in text
    assert "no finding" not in text
    assert "everything, for it could not be analysed" in text


def test_a_case_without_hidden_writes_has_nothing_to_check() -> None:
    assert "nothing to check" in compute_text(render(CASES["nothing"]))


def test_a_page_names_reads_that_share_a_mark_and_things_that_the_view_cannot_show() -> None:
    reads = tuple(BufferAccess(buffer=0, step=10, kind=AccessKind.READ, read=ReadKind.FRESH) for _ in range(12))
    outputs = tuple(OutputView(name=f"o{n}", verdict=Verdict.FRESH, path=(7, 10)) for n in range(9))
    view = make_view(accesses=(*make_accesses((3, 7)), *reads), outputs=outputs)
    text = compute_text(render(make_case(view=view)))
    assert "12 reads that are right share a mark" in text
    assert "3 more outputs are not drawn" in text
    assert "iterations after the first are not drawn" in text


def test_an_allowed_finding_names_its_suppression() -> None:
    assert "allowed: known (config, pyproject.toml 1)" in compute_text(render(CASES["allowed"]))


def test_the_reason_why_nothing_was_replayed_is_shown() -> None:
    assert "too large (needs 6 GiB)" in compute_text(render(CASES["refused replay"]))


def test_every_step_is_linked_both_ways() -> None:
    reader = read(render(WHOLE))
    for step in make_view().steps:
        assert {f"i{step.id}", f"t{step.id}"} <= set(reader.ids)
        assert {f"#i{step.id}", f"#t{step.id}"} <= set(reader.links)


def test_the_worst_finding_comes_first_and_the_allowed_last() -> None:
    findings: tuple[Finding, ...] = (
        ALLOWED,
        make_finding(rule="LD006", severity=Severity.WARNING),
        make_finding(rule="LD001", message="worst"),
    )
    page = render(make_case(findings=findings))
    assert page.index("[LD001]") < page.index("[LD006]") < page.index("allowed: known")
