"""A page like that of a transformer in a real browser: what folds, what sticks, where links land."""

import pytest

from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import Status
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, MissingEdge, OutputView, ReadKind
from ligerdiag.report.html import render_case_html
from tests.report.html.chromium import NEEDS_CHROMIUM, Visit
from tests.report.html.view_samples import make_accesses, make_step, make_view
from tests.report.samples import make_case, make_finding, make_numbers, make_replay, make_report

playwright_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = [NEEDS_CHROMIUM, pytest.mark.nightly]


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """80 instructions in a row, 40 outputs, 30 findings of two kernels."""
    steps = (*make_view().steps, *(make_step(n, operands=(n - 1,), loops=()) for n in range(100, 165)))
    reads = tuple(
        BufferAccess(buffer=0, step=100 + 5 * n, kind=AccessKind.READ, read=ReadKind.STALE, outputs=(f"p{n}",))
        for n in range(13)
    )
    names = tuple(f"p{n}" for n in range(40))
    missing = tuple(MissingEdge(buffer=0, kernel=7, reader=100 + 5 * n) for n in range(13))
    views = tuple(
        OutputView(
            name=name,
            verdict=Verdict.STALE,
            path=tuple(range(100, 160 + n % 5)),
            missing=missing,
            sentence=f"`{name}` is computed from what `kernel{n % 7}` should have overwritten",
        )
        for n, name in enumerate(names)
    )
    view = make_view(steps=steps, accesses=(*make_accesses((3, 7)), *reads), outputs=views)
    replay = {name: make_numbers(Attribution.STALE) for name in names}
    case = make_case(
        "long",
        Status.FINDINGS,
        outputs=dict.fromkeys(names, Verdict.STALE),
        view=view,
        findings=tuple(make_finding(message=f"finding {'i' * (n + 1)}", outputs=(f"p{n}",)) for n in range(30)),
        replay=make_replay(replay),
    )
    file = tmp_path_factory.mktemp("long") / "long.html"
    file.write_text(render_case_html(case, make_report(case)), encoding="utf-8")
    return file.as_uri()


@pytest.mark.parametrize(("width", "most"), [(1280, 5_500), (390, 8_000)])
def test_a_long_page_is_folded_and_still_complete(
    browser: "playwright_api.Browser", long_page: str, width: int, most: int
) -> None:
    with Visit(browser, viewport={"width": width, "height": 800}) as visit:
        visit.page.goto(long_page)
        assert visit.page.evaluate("document.documentElement.scrollHeight") < most
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.locator(".finding").count() == 30
        assert visit.page.locator("[id^=o]:has(> .chip), li[id^=o]").count() >= 40
        assert visit.page.locator(".listing > li").count() == 80
        assert visit.page.locator(".plot-name").count() == 40


def find_top(visit: Visit, what: str) -> float:
    box = visit.page.locator(what).first.bounding_box()
    assert box is not None, what
    return box["y"]


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("width", [1280, 390])
def test_links_land_below_the_sticky_heading_and_unfold_their_target(
    browser: "playwright_api.Browser", long_page: str, width: int, script: bool
) -> None:
    options = {"java_script_enabled": script, "reduced_motion": "reduce", "viewport": {"width": width, "height": 800}}
    with Visit(browser, **options) as visit:
        visit.page.goto(f"{long_page}#findings")
        bar = visit.page.locator(".top").bounding_box()
        assert bar is not None
        bottom = bar["y"] + bar["height"]
        assert 0 < bottom < 60, "the navigation is in sight"
        assert visit.page.locator(".toc a[href='#hlo']").is_visible()
        assert bottom - 1 <= find_top(visit, "#findings > h2") < bottom + 60
        visit.page.goto("about:blank")
        visit.page.goto(f"{long_page}#i120")
        heading = visit.page.locator("#hlo > h2").bounding_box()
        assert heading is not None
        assert abs(heading["y"] - bottom) < 2, "the heading sticks below the navigation"
        top = find_top(visit, "#i120")
        assert heading["y"] + heading["height"] <= top + 1 < heading["y"] + heading["height"] + 40


def test_a_wide_dataflow_scrolls_in_its_own_box_with_a_hint(browser: "playwright_api.Browser", long_page: str) -> None:
    with Visit(browser) as visit:
        visit.page.goto(long_page)
        box = visit.page.get_by_role("region", name="Dataflow, scrolls sideways")
        assert box.evaluate("element => element.scrollWidth > element.clientWidth + 100")
        assert box.evaluate("element => element.clientHeight") <= 520
        hint = visit.page.locator("#dataflow .hint")
        assert hint.is_visible()
        assert "scroll →" in hint.inner_text()


def test_a_printed_page_unfolds_everything(browser: "playwright_api.Browser", long_page: str) -> None:
    with Visit(browser) as visit:
        visit.page.goto(long_page)
        folded = visit.page.locator("details:not([open])").count()
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator("details:not([open])").count() == 0
        visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert visit.page.locator("details:not([open])").count() == folded > 10
