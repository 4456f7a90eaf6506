"""`--html DIR` writes pages besides the table, and only into a folder that belongs to ligerdiag."""

import os
from pathlib import Path

import pytest

from ligerdiag.cli.output import require_html_directory, write_html
from ligerdiag.errors import InputError
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_report


def test_check_writes_pages_and_prints_their_path(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    outcome = run_command("check", "--html", str(tmp_path / "pages"))
    assert outcome.code == 0
    assert f"html: {tmp_path / 'pages' / 'index.html'}" in outcome.err
    assert api.asked[0].view
    assert len(list((tmp_path / "pages").glob("*.html"))) == 2
    assert "flce[hidden]" in outcome.out


def test_without_html_no_view_is_computed(api: FakeApi, run_command: RunCommand) -> None:
    run_command("check")
    assert not api.asked[0].view


def test_a_foreign_directory_is_refused_before_any_work(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("", encoding="utf-8")
    outcome = run_command("check", "--html", str(tmp_path))
    assert outcome.code == 2
    assert "has other files" in outcome.err
    assert api.asked == []


def test_a_foreign_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>mine</title>", encoding="utf-8")
    with pytest.raises(InputError, match="has other files"):
        require_html_directory(tmp_path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("", encoding="utf-8")
    for path in (file, file / "below"):
        with pytest.raises(InputError, match="is a file"):
            require_html_directory(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"no permission to write to "):
        require_html_directory(tmp_path / "pages")


def test_an_empty_and_a_missing_directory_are_accepted(tmp_path: Path) -> None:
    require_html_directory(tmp_path)
    require_html_directory(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


def test_pages_of_an_earlier_report_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    write_html(make_report(make_case("a"), make_case("b")), tmp_path)
    (tmp_path / "notes.html").write_text("<title>mine</title>", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    write_html(make_report(make_case("b")), tmp_path)
    names = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert names == {"b", "index", "notes"}
    assert len(list(tmp_path.iterdir())) == 4


def test_a_report_without_an_index_still_counts_as_ours(tmp_path: Path) -> None:
    write_html(make_report(make_case("a")), tmp_path)
    (tmp_path / "index.html").unlink()
    require_html_directory(tmp_path)


def test_a_link_is_never_removed(tmp_path: Path) -> None:
    pages, elsewhere = tmp_path / "pages", tmp_path / "elsewhere.html"
    write_html(make_report(make_case("a")), pages)
    elsewhere.write_text((pages / "index.html").read_text("utf-8"), encoding="utf-8")
    (pages / "old.html").symlink_to(elsewhere)
    write_html(make_report(make_case("a")), pages)
    assert (pages / "old.html").is_symlink()
    assert elsewhere.exists()
