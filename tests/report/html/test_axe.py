"""The pages under the rules of axe-core, the linter of accessibility, with everything on them unfolded."""

from importlib import resources
from pathlib import Path

import pytest

from ligerdiag.report.html import compute_file_names, render_case_html, render_index_html
from tests.report.html.chromium import NEEDS_CHROMIUM, Visit
from tests.report.html.test_in_chromium import CASES
from tests.report.html.test_remedy import make_marked
from tests.report.samples import make_report
from tests.rotation import current_turn, take_turns

playwright_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
pytestmark = NEEDS_CHROMIUM

_UNFOLD = "for (const fold of document.querySelectorAll('details')) fold.open = true"
_RUN = """async () => {
  const values = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await axe.run({ runOnly: { type: "tag", values } });
  return found.violations.map((one) => [one.id, one.nodes[0].html.slice(0, 200)]);
}"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(browser: "playwright_api.Browser", tmp_path: Path, scheme: str, width: int) -> None:
    """`target-size` (24 px) and `nested-interactive` are among the rules. By day the pages take turns."""
    named = make_marked(tmp_path, message="`input` is computed by `%input_reduce_fusion`")  # a step of the page
    cases = (*CASES, named)
    report = make_report(*cases)
    pages = {"index.html": render_index_html(report)}
    pages |= {name: render_case_html(c, report) for name, c in zip(compute_file_names(cases), cases, strict=True)}
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    for name, page in pages.items():
        (tmp_path / name).write_text(page, encoding="utf-8")
    shown = take_turns(list(pages), current_turn()) if (scheme, width) == ("light", 1280) else tuple(pages)
    for name in shown:
        with Visit(browser, color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True) as visit:
            visit.page.goto((tmp_path / name).as_uri())
            visit.page.evaluate(_UNFOLD)
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, name
            visit.page.evaluate(script)
            assert visit.page.evaluate(_RUN) == [], name
