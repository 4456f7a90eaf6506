"""The index: every case, every note, and links that lead somewhere."""

from ligerdiag.ending import Ending
from ligerdiag.model.findings import SuppressionKind, Verdict
from ligerdiag.model.report import Status, UnusedSuppression
from ligerdiag.report.html import compute_file_names, render_case_html, render_index_html
from tests.report.html.pages import compute_text, read
from tests.report.samples import make_case, make_device, make_replay, make_report

CASES = (
    make_case("a", replay=make_replay(), device=make_device()),
    make_case("b<b>", Status.ERROR, outputs={}, error="XLA aborted"),
    make_case("c", Status.NOTHING, outputs={}),
)
UNUSED = UnusedSuppression(
    kind=SuppressionKind.CONFIG, rule="LD001", reason="once", where="pyproject.toml 1", message="nothing to allow"
)


def test_the_index_is_well_formed_and_links_every_case() -> None:
    reader = read(render_index_html(make_report(*CASES)))
    assert reader.trouble == []
    assert set(compute_file_names(CASES)) <= set(reader.links)
    assert {link for link in reader.links if link.startswith("#")} - {"#main"} <= {f"#{name}" for name in reader.ids}


def test_the_index_counts_cases_by_status() -> None:
    text = compute_text(render_index_html(make_report(*CASES)))
    assert "3 cases" in text
    assert "1 could not analyse" in text
    assert "1 nothing to check" in text
    assert "XLA aborted" in text


def test_the_index_shows_notes_and_unused_suppressions() -> None:
    text = compute_text(render_index_html(make_report(*CASES, notes=("two modules",), unused_suppressions=(UNUSED,))))
    assert "note: two modules" in text
    assert "LD001 at pyproject.toml 1: nothing to allow (its reason: once)" in text


def test_an_interrupted_run_is_reported_as_such() -> None:
    assert "interrupted: not every case was done" in render_index_html(make_report(*CASES, interrupted=True))


def test_an_empty_report_says_that_nothing_was_checked() -> None:
    page = render_index_html(make_report())
    assert read(page).trouble == []
    assert "nothing was checked" in page


def test_wrong_outputs_come_first_and_the_rest_is_counted() -> None:
    outputs = {**{f"f{n}": Verdict.FRESH for n in range(20)}, "bad": Verdict.STALE}
    text = compute_text(render_index_html(make_report(make_case("a", outputs=outputs))))
    assert "bad STALE f0 fresh" in text
    assert "and 15 more" in text


def test_two_hundred_cases_are_one_table_of_a_bounded_size() -> None:
    page = render_index_html(make_report(*(make_case(f"case[{n}]") for n in range(200))))
    assert read(page).tags.count("tr") == 201
    assert len(page) < 1 << 20


def test_a_case_after_the_time_limit_is_not_checked_on_its_page_and_in_the_index() -> None:
    case = make_case("unseen", Status.NOT_CHECKED, outputs={}, error="the run was ended by the time limit")
    report = make_report(case, interrupted=True, ended_by=Ending.TIME_LIMIT)
    index = render_index_html(report)
    assert "ended by the time limit: not every case was done" in index
    for text in ("<b>1</b> not run", "<option>not run</option>", '<tr data-status="not run">', "1 not run; ended by"):
        assert text in index
    assert "not checked" not in index
    page = render_case_html(case, report)
    assert "<b>not run:</b> the run was ended by the time limit" in page
    assert "could not analyse" not in page


def test_failing_cases_come_first_then_unknown_then_as_expected() -> None:
    statuses = (
        Status.EXPECTED,
        Status.NOTHING,
        Status.INCONCLUSIVE,
        Status.UNEXPECTED,
        Status.CLEAN,
        Status.FINDINGS,
        Status.ERROR,
    )
    cases = tuple(make_case(status.name, status) for status in statuses)
    files = compute_file_names(cases)
    links = [link for link in read(render_index_html(make_report(*cases))).links if link in files]
    order = [cases[files.index(link)].id for link in links]
    assert order == ["UNEXPECTED", "FINDINGS", "ERROR", "INCONCLUSIVE", "NOTHING", "EXPECTED", "CLEAN"]


def test_fresh_outputs_that_the_numbers_call_wrong_are_counted_as_such() -> None:
    replay = make_replay({}, reference={"a": 1.0}, reference_tolerance={"a": 1e-4})
    text = compute_text(render_index_html(make_report(make_case("a", outputs={"a": Verdict.FRESH}, replay=replay))))
    assert "1 output fresh, wrong by the numbers" in text
