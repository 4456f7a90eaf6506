"""The pages in a real browser: light and dark, narrow, without script, by keyboard, with a module of 150,000 lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Status
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, ReadKind
from ligerdiag.report.html import compute_file_names, render_case_html, render_index_html
from tests.report.html.chromium import NEEDS_CHROMIUM, Visit
from tests.report.html.view_samples import make_accesses, make_view
from tests.report.samples import make_case, make_device, make_finding, make_memory, make_replay, make_report

playwright_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = NEEDS_CHROMIUM
LINES = 150_000
MAX_NODES = 2_000
"""Elements that the viewer of a module of any size may hold."""

WHOLE = make_case(
    "whole[a-1]",
    view=make_view(),
    findings=(make_finding(),),
    replay=make_replay(),
    device=make_device(),
    memory=make_memory(),
)
CASES = (
    WHOLE,
    make_case("error", Status.ERROR, outputs={}, error="XLA aborted", log_tail="one\ntwo"),
    make_case("nothing", Status.NOTHING, outputs={}, coverage=Coverage()),
    make_case("unknown", Status.INCONCLUSIVE, outputs={"loss": Verdict.UNKNOWN}),
)
REPORT = make_report(*CASES)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(tmp_path_factory.mktemp("pages"), REPORT)


def write_pages(directory: Path, report: CheckReport) -> Path:
    for name, case in zip(compute_file_names(report.cases), report.cases, strict=True):
        (directory / name).write_text(render_case_html(case, report), encoding="utf-8")
    (directory / "index.html").write_text(render_index_html(report), encoding="utf-8")
    return directory


def find_file(pages: Path, case: CaseReport = WHOLE) -> str:
    return (pages / compute_file_names([case])[0]).as_uri()


def unfold(visit: Visit) -> None:
    """Opens the part of the page with the schedule and the HLO."""
    visit.page.locator("#compiler > details > summary").click()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_logs_errors_makes_requests_or_scrolls_sideways(
    browser: "playwright_api.Browser", pages: Path, scheme: str, width: int
) -> None:
    for file in sorted(pages.glob("*.html")):
        with Visit(browser, color_scheme=scheme, viewport={"width": width, "height": 800}) as visit:
            visit.page.goto(file.as_uri())
            assert visit.complaints == []
            assert visit.requests == [file.as_uri()]
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "shown"), [(1280, ["bt0"]), (390, ["nt0"])])
def test_a_page_shows_the_band_that_fits(
    browser: "playwright_api.Browser", pages: Path, width: int, shown: list[str]
) -> None:
    with Visit(browser, viewport={"width": width, "height": 800}) as visit:
        visit.page.goto(find_file(pages))
        bands = visit.page.locator("svg.band:visible > title").evaluate_all("titles => titles.map((t) => t.id)")
        assert bands == shown


def test_a_band_with_many_wrong_reads_scrolls_by_itself(browser: "playwright_api.Browser", tmp_path: Path) -> None:
    reads = tuple(BufferAccess(buffer=0, step=9, kind=AccessKind.READ, read=ReadKind.STALE) for _ in range(25))
    case = make_case(view=make_view(accesses=(*make_accesses((3, 7)), *reads)))
    write_pages(tmp_path, make_report(case))
    with Visit(browser) as visit:
        visit.page.goto(find_file(tmp_path, case))
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert visit.page.get_by_role("region", name="Band of %loop_add_fusion.1").get_attribute("tabindex") == "0"
        last = visit.page.locator("svg.band:visible .access").last
        last.focus()
        assert last.bounding_box()["x"] < 1280  # type: ignore[index]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_has_headline_outputs_and_finding(
    browser: "playwright_api.Browser", pages: Path, width: int
) -> None:
    height = {1280: 800, 390: 844}[width]
    with Visit(browser, viewport={"width": width, "height": height}) as visit:
        visit.page.goto(find_file(pages))
        for what in ("#headline", "ul.chips", ".finding h3"):
            box = visit.page.locator(what).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height


def test_the_essentials_can_be_read_without_script(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser, java_script_enabled=False) as visit:
        visit.page.goto(find_file(pages))
        assert not visit.page.locator(".timeline").is_visible()
        unfold(visit)
        for what in ("#headline", ".chips", "svg.band", "svg.flow", ".finding", ".timeline", ".listing", "#coverage"):
            assert visit.page.locator(what).first.is_visible(), what
        assert visit.page.locator("noscript").inner_text().startswith("Unpacking it needs JavaScript")
        assert not visit.page.locator("#open-module").is_visible()
        body = visit.page.locator("details.loop .row").nth(1)
        assert body.is_visible()
        visit.page.locator("details.loop > summary").first.click(position={"x": 3, "y": 10})
        assert not body.is_visible()
        visit.page.goto((pages / "index.html").as_uri())
        assert visit.page.locator("#cases tbody tr").count() == len(CASES)
        assert not visit.page.locator("#filter").is_visible()


def test_the_schemes_differ_and_can_be_chosen_manually(browser: "playwright_api.Browser", pages: Path) -> None:
    def find_paper(visit: Visit) -> str:
        return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    with Visit(browser, color_scheme="light", java_script_enabled=True) as visit:
        visit.page.goto(find_file(pages))
        light = find_paper(visit)
        visit.page.locator("#theme-dark").check()
        assert find_paper(visit) != light
        visit.page.emulate_media(color_scheme="dark")
        visit.page.locator("#theme-light").check()
        assert find_paper(visit) == light


_CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const toRgb = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const paper = (element) => {
    for (; element; element = element.parentElement) {
      const colour = toRgb(getComputedStyle(element).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim()) continue;
    if (element.closest("script, style, noscript, title, desc, .sr, .skip, legend")) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = toRgb(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [one, other] = [luminance(ink), luminance(paper(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) poor.push(`${walker.currentNode.data.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
def test_text_has_the_contrast_that_wcag_aa_requires(
    browser: "playwright_api.Browser", pages: Path, scheme: str
) -> None:
    for file in (find_file(pages), (pages / "index.html").as_uri()):
        with Visit(browser, color_scheme=scheme) as visit:
            visit.page.goto(file)
            assert visit.page.evaluate(_CONTRAST) == []


_FOCUSED = "document.activeElement.getAttribute('href') || document.activeElement.id"


def test_the_tab_key_goes_from_the_skip_link_through_the_page(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser) as visit:
        visit.page.goto(find_file(pages))
        visited: list[str] = []
        for _ in range(30):
            visit.page.keyboard.press("Tab")
            visited.append(visit.page.evaluate(_FOCUSED))
        assert visited[:2] == ["#main", "index.html"]
        assert "theme-auto" in visited
        chips = ["#o1", "#o2", "#o3", "#o4"]
        at = visited.index("#o1")
        assert visited.index("theme-auto") < at
        assert visited[at : at + 4] == chips
        marks = [link for link in visited[at:] if link.startswith("#i")]
        assert marks[0] == "#i10", "the evidence of the finding comes before the band"
        assert marks[1:9] == ["#i3", "#i4", "#i6", "#i7", "#i8", "#i9", "#i10", "#i11"]


def test_the_focus_is_visible(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser) as visit:
        visit.page.goto(find_file(pages))
        for what in (".access", ".chip", ".code", "summary", ".node"):
            target = visit.page.locator(f"{what}:visible").first
            owner = target if what != ".node" else visit.page.locator(".flow a").first
            before = owner.screenshot()
            owner.focus()
            visit.page.keyboard.press("Shift")
            assert owner.evaluate("element => element.matches(':focus-visible')"), what
            if what in (".access", ".node"):
                assert owner.screenshot() != before


def test_the_keys_j_and_k_step_through_the_accesses(browser: "playwright_api.Browser", pages: Path) -> None:
    def find_focus(visit: Visit) -> str | None:
        return visit.page.evaluate("document.activeElement.getAttribute('href')")

    with Visit(browser) as visit:
        visit.page.goto(find_file(pages))
        steps: list[str | None] = []
        for key in ("j", "j", "j", "k", "ArrowRight"):
            visit.page.keyboard.press(key)
            steps.append(find_focus(visit))
        assert steps == ["#i3", "#i4", "#i6", "#i4", "#i6"]
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("location.hash") == "#i6"


def test_a_link_into_a_folded_loop_unfolds_it(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser) as visit:
        visit.page.goto(find_file(pages))
        unfold(visit)
        visit.page.locator("details.loop").first.evaluate("element => { element.open = false; }")
        visit.page.locator("#i9 a.time").click()
        assert visit.page.locator("#t9").is_visible()


def test_pictures_controls_and_regions_have_names(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser) as visit:
        visit.page.goto(find_file(pages))
        nameless = visit.page.evaluate(
            """() => [...document.querySelectorAll(
              'a, button, input, select, summary, [role=img], [role=group], [role=region]')]
            .filter((e) => e.getClientRects().length)
            .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim()
              || (e.labels && e.labels.length)))
            .map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        snapshot = visit.page.locator("body").aria_snapshot()
        assert "stale read: %input_multiply_reduce_subtract_fusion at 46, reaches input" in snapshot
        assert 'heading "1 of 4 outputs is wrong (stale): input; 1 is wrong (clobbered)"' in snapshot


def test_labels_of_the_band_do_not_overlap(browser: "playwright_api.Browser", pages: Path) -> None:
    for width in (1280, 390):
        with Visit(browser, viewport={"width": width, "height": 800}) as visit:
            visit.page.goto(find_file(pages))
            meeting = visit.page.evaluate(
                """() => {
                  const texts = [...document.querySelectorAll('.band text')].filter((e) => e.getClientRects().length
                    && !e.classList.contains('question'));
                  const boxes = texts.map((e) => [e, e.getBoundingClientRect()]);
                  const found = [];
                  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
                    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                    const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                    if (x > 1 && y > 3.5) found.push(one.textContent + ' | ' + other.textContent);
                  }));
                  return found;
                }"""
            )
            assert meeting == []


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    body = tuple(
        f"  %fusion.{n} = f32[64,32]{{1,0}} fusion(%fusion.{n - 1}, %parameter.{n % 97}), kind=kLoop, calls=%fused.{n}"
        for n in range(1, LINES)
    )
    view = make_view(text=("HloModule large", *body), anchors=((7, 100_000),), instructions=LINES)
    case = make_case("large", view=view)
    file = tmp_path_factory.mktemp("large") / "large.html"
    file.write_text(render_case_html(case, make_report(case)), encoding="utf-8")
    assert file.stat().st_size < 5 << 20
    return file.as_uri()


def count_nodes(visit: Visit) -> int:
    return visit.page.locator("#viewer *").count()


@pytest.mark.nightly
def test_a_module_of_150000_lines_needs_a_bounded_number_of_nodes(
    browser: "playwright_api.Browser", large: str
) -> None:
    with Visit(browser) as visit:
        visit.page.goto(large)
        unfold(visit)
        visit.page.locator("#open-module").click()
        visit.page.locator("#lines .line").first.wait_for()
        assert count_nodes(visit) < MAX_NODES
        visit.page.locator("#window").evaluate("element => { element.scrollTop = element.scrollHeight; }")
        visit.page.get_by_text(f"%fusion.{LINES - 1}", exact=True).first.wait_for()
        assert count_nodes(visit) < MAX_NODES
        assert visit.complaints == []


@pytest.mark.nightly
def test_a_line_of_a_large_module_is_found(browser: "playwright_api.Browser", large: str) -> None:
    with Visit(browser) as visit:
        visit.page.goto(large)
        unfold(visit)
        visit.page.locator("#open-module").click()
        visit.page.locator("#find").fill("FUSION.123456 =")
        visit.page.get_by_text("line 123457, 1 of 1").wait_for()
        assert "%fusion.123456 = " in visit.page.locator("#lines .hit-line").inner_text()
        visit.page.locator("#find").fill("no such line")
        visit.page.get_by_text("not found").wait_for()
        visit.page.locator("#find").fill("parameter.96")
        visit.page.get_by_text("1 of 1546", exact=False).wait_for()
        visit.page.locator("#find").press("Enter")
        visit.page.get_by_text("2 of 1546", exact=False).wait_for()
        assert count_nodes(visit) < MAX_NODES


_SCROLL_THE_MODULE = """() => new Promise((done) => {
  document.getElementById("window").scrollTop += 40;
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
})"""


def test_a_name_in_the_module_leads_to_its_line_and_a_step_to_the_module(
    browser: "playwright_api.Browser", large: str
) -> None:
    with Visit(browser) as visit:
        visit.page.goto(large)
        unfold(visit)
        visit.page.locator("[data-line='100000']").click()
        visit.page.get_by_text("line 100001, 1 of 1").wait_for()
        name = visit.page.locator(".hit-line [data-name='%fusion.99999']").element_handle()
        visit.page.evaluate(_SCROLL_THE_MODULE)
        assert name.evaluate("element => element.isConnected"), (
            "a line that is scrolled between two clicks loses the second"
        )
        name.click()
        visit.page.get_by_text("line 100000, 1 of 1").wait_for()
        visit.page.locator("#lines a.line-number").first.click()
        assert visit.page.evaluate("location.hash") == "#i7"


def test_the_index_sorts_and_filters(browser: "playwright_api.Browser", pages: Path) -> None:
    with Visit(browser) as visit:
        visit.page.goto((pages / "index.html").as_uri())
        names = visit.page.locator("#cases tbody tr:visible th a")
        visit.page.get_by_role("button", name="case").click()
        assert names.all_inner_texts() == ["error", "nothing", "unknown", "whole[a-1]"]
        visit.page.get_by_role("button", name="outputs").click()
        visit.page.get_by_role("button", name="outputs").click()
        assert names.all_inner_texts()[0] == "whole[a-1]"
        visit.page.get_by_label("Filter").fill("xla abort")
        assert names.all_inner_texts() == ["error"]
        visit.page.get_by_text("1 of 4 shown").wait_for()
        visit.page.get_by_label("Filter").fill("ld002")
        assert names.all_inner_texts() == ["whole[a-1]"]
        visit.page.get_by_label("Filter").fill("")
        visit.page.get_by_label("Status", exact=True).select_option("nothing to check")
        assert names.all_inner_texts() == ["nothing"]


def test_a_word_of_the_index_is_never_broken(browser: "playwright_api.Browser", tmp_path: Path) -> None:
    """A narrow column once showed `agree` and, below it, `s`."""
    names = [f"attention_with_a_long_name[{'softmax-' * 4}{n}]" for n in range(2)]
    cases = [make_case(name, replay=make_replay(), device=make_device()) for name in names]
    (tmp_path / "index.html").write_text(
        render_index_html(make_report(cases[0], replace(cases[1], target="a100"))), encoding="utf-8"
    )
    for width in (900, 1000, 1280):
        with Visit(browser, viewport={"width": width, "height": 800}) as visit:
            visit.page.goto((tmp_path / "index.html").as_uri())
            broken = visit.page.evaluate(
                """() => [...document.querySelectorAll('td[data-label=replay], td[data-label=device]')].filter((cell) => {
                  const range = document.createRange();
                  const text = cell.firstChild;
                  return [...text.data.matchAll(/\\S+/g)].some((word) => {
                    range.setStart(text, word.index);
                    range.setEnd(text, word.index + word[0].length);
                    return range.getClientRects().length > 1;
                  });
                }).map((cell) => cell.textContent)"""
            )
            assert broken == [], width
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.nightly
def test_an_index_of_190_cases_sorts_every_row(browser: "playwright_api.Browser", tmp_path: Path) -> None:
    report = make_report(*(make_case(f"case[{n}]", findings=(make_finding(),)) for n in range(190)))
    (tmp_path / "index.html").write_text(render_index_html(report), encoding="utf-8")
    with Visit(browser) as visit:
        visit.page.goto((tmp_path / "index.html").as_uri())
        visit.page.get_by_role("button", name="case").click()
        names = visit.page.locator("#cases tbody th a").all_inner_texts()
        assert names == [f"case[{n}]" for n in range(190)]
