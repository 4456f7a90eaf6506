"""Each cell of a sweep's matrix leads to the page of its case, made from the store's contents."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ligerdiag.cli.sweep import keep_page, write_files
from ligerdiag.codec import FieldError, pack_record, unpack_record
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.sweep.campaign import SweepOptions, SweepReport, run_sweep
from ligerdiag.sweep.result_store import ResultStore
from ligerdiag.sweep.sweep_table import render_case_page
from tests.report.html.chromium import CHROMIUM, NEEDS_CHROMIUM, Visit
from tests.report.html.conftest import browser
from tests.report.html.view_samples import make_view
from tests.report.samples import make_case, make_finding, make_report
from tests.sweep.test_sweep import IDS, write_grid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]
_LINK = re.compile(r'<a class="cell" href="(pages/[^"]*)">')


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """Returns the folder of a sweep of two cases on two GPUs."""
    out = tmp_path_factory.mktemp("sweep")
    write_grid(out / "grid.toml", IDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
        sweep(out)
    return out


def sweep(out: Path) -> SweepReport:
    for name in ("pages", "reports"):
        (out / name).mkdir(exist_ok=True)
    options = SweepOptions(grid=out / "grid.toml", store=str(out / "results"), jobs=1)
    report = run_sweep(options, lambda step: None, partial(keep_page, out))
    write_files(report, out)
    return report


def test_each_cell_leads_to_a_page_of_its_case_and_gpu(
    out: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = _LINK.findall((out / "index.html").read_text())
    assert len(set(links)) == len(links) == 4
    said = [(name, target) for name in IDS for target in ("a100", "h100")]
    found = [(name, target) for link in links for name, target in said if is_of(out / link, name, target)]
    assert sorted(found) == sorted(said)
    assert all('href="../index.html"' in (out / link).read_text() for link in links)

    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    (out / "pages" / "mine.html").write_text("of the user")
    (out / "pages" / f"{'0' * 16}-{'0' * 16}.html").write_text("of a result that is no more")
    before = {link: (out / link).stat().st_mtime_ns for link in links}
    assert sweep(out).ran == 0
    assert {link: (out / link).stat().st_mtime_ns for link in links} == before, "none is made again"
    assert {path.name for path in (out / "pages").iterdir()} == {"mine.html", *[Path(link).name for link in links]}


def is_of(page: Path, name: str, target: str) -> bool:
    text = page.read_text()
    return f">{name}<" in text and f">{target}<" in text


@NEEDS_CHROMIUM
def test_a_click_on_a_cell_shows_its_page_and_the_way_back(out: Path, browser: "Browser") -> None:
    pytest.importorskip("playwright.sync_api", reason="needs playwright")
    assert Path(CHROMIUM).exists()
    with Visit(browser) as visit:
        visit.page.goto((out / "index.html").as_uri())
        row = visit.page.get_by_role("row", name=IDS[0])
        row.get_by_role("cell").nth(1).get_by_role("link").click()
        visit.page.wait_for_url("**/pages/*.html")
        assert IDS[0] in visit.page.inner_text("h1")
        assert "h100" in visit.page.inner_text("main")
        visit.page.click("a.home")
        visit.page.wait_for_url("**/index.html")
        assert "Where do verdicts change?" in visit.page.inner_text("main")
        assert visit.complaints == []


def test_a_page_is_made_only_from_a_complete_report() -> None:
    case = make_case(view=make_view(), findings=(make_finding(),))
    report = make_report(make_case("another", Status.NOTHING, outputs={}), case)
    data = pack_record(report)
    assert unpack_record(CheckReport, data, maximum=1 << 20) == report
    page = render_case_page(data, case.id)
    assert case.id in page
    assert "../index.html" in page
    assert [render_case_page(one, case.id) for one in (b"", b"no gzip", data[:-9], pack_record({"cases": []}))] == [
        ""
    ] * 4
    assert render_case_page(pack_record(replace(report, cases=())), case.id) == ""
    with pytest.raises(FieldError, match="is incomplete, or has more than 64 bytes"):
        unpack_record(CheckReport, data, maximum=64)
    hostile = replace(case, id="<script>alert(1)</script>", error="<script>alert(2)</script>")
    assert "<script>alert" not in render_case_page(pack_record(make_report(hostile)), hostile.id)


def test_a_grid_without_pages_has_no_data_and_no_links(
    out: Path, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    write_grid(tmp_path / "grid.toml", IDS[:1])
    grid = (tmp_path / "grid.toml").read_text()
    (tmp_path / "grid.toml").write_text(f"pages = false\n{grid}")
    report = sweep(tmp_path)
    store = ResultStore(str(tmp_path / "results"))
    assert [result.data for key in store.list_keys() if (result := store.find(key))] == [b""] * 2
    assert (report.pages, _LINK.findall((tmp_path / "index.html").read_text())) == ({}, [])
