"""The pages of the site in a real browser, narrow, light and dark: axe finds nothing, and no page scrolls sideways."""

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.report.html.chromium import ARGUMENTS, CHROMIUM, NEEDS_CHROMIUM, Visit
from tests.rotation import current_turn, take_turns

playwright_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
pytestmark = NEEDS_CHROMIUM
AXE = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
WIDTH = 390
TYPICAL = ("ci/index.html", "memory/index.html", "rules/ld001-stale-read/index.html")
"""Pages with what the others have: tables with empty heads, wide tables, blocks of code in several languages."""
LIST_VIOLATIONS = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.flatMap(
  (one) => one.nodes.map((node) => `${one.id} ${node.target} ${node.failureSummary}`))
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Returns the address of the site's start page, served as one of two versions."""
    root = tmp_path_factory.mktemp("served")
    (root / "0.1").symlink_to(site)
    versions = [
        {"version": "0.2", "title": "0.2", "aliases": ["latest"]},
        {"version": "0.1", "title": "0.1", "aliases": []},
    ]
    (root / "versions.json").write_text(json.dumps(versions))
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/0.1/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright_api.Browser"]:
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def list_faults(browser: "playwright_api.Browser", served: str, pages: list[str], scheme: str) -> list[str]:
    """Returns a line for each fault of the pages. scheme: `light` or `dark`."""
    faults: list[str] = []
    with Visit(browser, color_scheme=scheme, viewport={"width": WIDTH, "height": 844}) as visit:
        for page in pages:
            visit.page.goto(served + page.removesuffix("index.html"))
            visit.page.wait_for_selector(".md-version")
            visit.page.evaluate(AXE)
            faults += [f"{page} {scheme}: {fault}" for fault in visit.page.evaluate(LIST_VIOLATIONS)]
            shown = visit.page.evaluate("document.documentElement.scrollWidth")
            faults += [f"{page} is {shown} wide"] if shown > WIDTH else []
            faults += [f"{page} logs {line}" for line in visit.complaints]
            visit.complaints.clear()
        faults += [f"it asks for {address}" for address in visit.requests if not address.startswith(served[:-4])]
    return faults


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_typical_pages_have_no_faults(browser: "playwright_api.Browser", served: str, scheme: str) -> None:
    pages = take_turns(TYPICAL, current_turn()) if scheme == "light" else TYPICAL
    assert list_faults(browser, served, list(pages), scheme) == []


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_fault(browser: "playwright_api.Browser", site: Path, served: str, scheme: str) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("index.html"))
    assert len(pages) > 100
    assert list_faults(browser, served, pages, scheme) == []


@pytest.mark.parametrize(("page", "box"), [("cli", "pre > code"), ("versions", ".scrolling")])
def test_a_wide_table_and_wide_code_scroll_by_themselves(
    browser: "playwright_api.Browser", served: str, page: str, box: str
) -> None:
    with Visit(browser, viewport={"width": WIDTH, "height": 844}) as visit:
        visit.page.goto(f"{served}{page}/")
        wide = [
            one for one in visit.page.locator(box).all() if one.evaluate("(one) => one.scrollWidth > one.clientWidth")
        ]
        assert wide
        assert all(one.get_attribute("tabindex") == "0" for one in wide)
        wide[0].focus()
        visit.page.keyboard.press("ArrowRight")
        visit.page.wait_for_function("(one) => one.scrollLeft > 0", arg=wide[0].element_handle())


def test_a_page_leads_to_the_same_page_of_another_version(browser: "playwright_api.Browser", served: str) -> None:
    with Visit(browser) as visit:
        visit.page.goto(served + "memory/")
        visit.page.wait_for_selector(".md-version")
        links = visit.page.locator(".md-version__link").evaluate_all("links => links.map((link) => link.href)")
        assert links == [served.replace("/0.1/", "/0.2/"), served]
