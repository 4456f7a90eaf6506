"""The remedy in the headline of a page and the user's source below it, with a real file and in a real browser."""

import re
from pathlib import Path

import pytest

from ligerdiag.model.findings import CallPlace, Finding, ReadPlace, SourceLine, SourceSpan, Suppression, SuppressionKind
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.html import compute_file_names, render_case_html
from tests.report.html.chromium import NEEDS_CHROMIUM, Visit
from tests.report.html.pages import compute_text, read
from tests.report.html.view_samples import make_view
from tests.report.samples import make_case, make_finding, make_report

CODE = """\
def step(x, y):
    loss = jt.triton_call(
        x,
        kernel=k,  # <b>
        out_shape=o,
    )
    return loss, (x * y).sum()
"""
AFTER = """\
    loss, x = call_in_place(
        x,
        kernel=k,  # <b>
        written=0,
        outputs=o,
    )
"""


def make_marked(folder: Path, code: str = CODE, **changes: object) -> CaseReport:
    """Returns a case with a finding about the call in line 2 of a file and the read in line 7."""
    file = folder / "train.py"
    file.write_text(code, encoding="utf-8")
    call = SourceLine(file=str(file), line=2, span=SourceSpan(column=11, end_line=6, end_column=5))
    read_at = SourceLine(file=str(file), line=7, span=SourceSpan(column=18, end_line=7, end_column=23))
    place = CallPlace(line=call, target="triton_kernel_call_ffi", operands=1, outputs=1)
    fields: dict[str, object] = {
        "source": call,
        "call": place,
        "reader": ReadPlace(line=read_at),
        "outputs": ("input",),
    }
    finding = make_finding(**{**fields, **changes})
    return make_case(findings=(finding,), source_roots=(str(folder),), view=make_view())


def render(case: CaseReport) -> str:
    return render_case_html(case, make_report(case))


def test_the_headline_shows_the_call_before_and_after(tmp_path: Path) -> None:
    page = render(make_marked(tmp_path))
    assert read(page).trouble == []
    headline = page[page.index('class="story') : page.index("</section>", page.index('class="story'))]
    text = compute_text(headline)
    assert "+ from ligerdiag.in_place import call_in_place" in text
    assert "- loss = jt.triton_call( + loss, x = call_in_place( x, kernel=k, # <b>" in text
    assert "- out_shape=o, + written=0, + outputs=o," in text
    assert "Then use x from there on" in text


def test_a_call_that_cannot_be_rewritten_has_its_remedy_in_words(tmp_path: Path) -> None:
    page = render(make_marked(tmp_path, CODE.replace("out_shape=o", "**rest")))
    assert '<pre class="diff"' not in page
    assert "Remedy: loss, x = call_in_place(x, written=0, outputs=<as now>, …)" in compute_text(page)


def test_an_allowed_finding_and_a_contradiction_have_no_remedy_on_top(tmp_path: Path) -> None:
    allowed = Suppression(kind=SuppressionKind.CONFIG, reason="known", where="pyproject.toml 1")
    assert "Remedy:" not in compute_text(render(make_marked(tmp_path, suppressed=allowed)))
    case = make_case(status=Status.DISAGREEMENT, findings=(make_finding(outputs=("input",)),))
    assert "Remedy:" not in compute_text(render(case))


def test_reads_are_listed_by_line_with_the_names_of_their_instructions(tmp_path: Path) -> None:
    page = render(make_marked(tmp_path))
    place = page[page.index('<li class="read">') :]
    place = place[: place.index("</li>")]
    assert 'title="%input_reduce_fusion"' in place
    text = compute_text(place)
    assert re.search(r"train.py:7 read here afterwards → input , instructions: %input_reduce_fusion", text)
    assert "return loss, (x * y).sum()" in text
    assert re.search(r"<span class=\"caret\" aria-hidden=\"true\"> {14}\^{5}</span>", place)


def test_a_read_without_a_line_is_counted(tmp_path: Path) -> None:
    text = compute_text(render(make_marked(tmp_path, reader=ReadPlace(line=None))))
    assert "1 read has no source line : %input_reduce_fusion" in text


@pytest.mark.parametrize("code", ["", CODE.replace("x * y", "x"), CODE.replace("\n    return", "\n\n    return")])
def test_a_changed_file_is_not_quoted(tmp_path: Path, code: str) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "train.py"
    other.write_text(code, encoding="utf-8")
    moved = SourceLine(file=str(other), line=7, span=SourceSpan(column=18, end_line=7, end_column=23))
    page = render(make_marked(tmp_path, reader=ReadPlace(line=moved)))
    assert "other/train.py:7" in page
    assert page.count('<span class="caret"') == 1


def test_lines_with_tabs_are_not_offered_for_copying(tmp_path: Path) -> None:
    page = render(make_marked(tmp_path, CODE.replace("        x,", "\t\tx,")))
    assert '<pre class="diff"' not in page
    assert "Remedy:" in compute_text(page)


def test_a_finding_about_several_lines_folds_most_of_them(tmp_path: Path) -> None:
    case = make_marked(tmp_path)
    first: Finding = case.findings[0]
    parts = tuple(
        make_finding(
            source=first.source,
            call=first.call,
            outputs=("input",),
            reader=ReadPlace(line=SourceLine(file="gone.py", line=n)),
            instructions=("call", f"read.{n}"),
        )
        for n in range(1, 9)
    )
    text = compute_text(render(make_case(findings=parts, view=make_view())))
    assert "5 more lines that read" in text
    assert "gone.py:8 read here afterwards" in text


@NEEDS_CHROMIUM
@pytest.mark.parametrize("may_write", [True, False])
def test_the_button_copies_or_selects_the_changed_call(browser: object, tmp_path: Path, may_write: bool) -> None:
    case = make_marked(tmp_path)
    file = tmp_path / compute_file_names([case])[0]
    file.write_text(render(case), encoding="utf-8")
    with Visit(browser) as visit:  # type: ignore[arg-type]
        visit.page.add_init_script(
            "window.copied = []; Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => {"
            + ("copied.push(text);" if may_write else "throw new Error('not allowed');")
            + "} } });"
        )
        visit.page.goto(file.as_uri())
        visit.page.get_by_role("button", name="Copy the call").click()
        if may_write:
            visit.page.get_by_text("copied", exact=True).wait_for()
            assert visit.page.evaluate("copied") == [AFTER]
        else:
            visit.page.get_by_text("selected: copy it").wait_for()
            assert "outputs=o," in visit.page.evaluate("getSelection().toString()")
        assert visit.complaints == []
