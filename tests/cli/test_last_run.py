"""The record of the last run in a folder, and the cases that `--last-failed` selects by it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.api.judging import Run
from ligerdiag.api.last_run import (
    MAXIMUM_RECORD_BYTES,
    LastRun,
    RunPolicy,
    load_last_run,
    remember_run,
    save_last_run,
    select_open_cases,
)
from ligerdiag.api.run_course import RunCourse
from ligerdiag.artifacts.cache import RUNS, Cache
from ligerdiag.model.findings import DeviceRun
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.allowed.known_findings import KnownFindings
from ligerdiag.run_options import CheckOptions
from tests.report.samples import make_case


def make_source(folder: Path, name: str) -> Source:
    path = folder / name
    path.write_text("CASES = ()\n")
    return Source(file=str(path), root=str(folder))


def make_spec(source: Source, case_id: str) -> CaseSpec:
    return CaseSpec(id=case_id, name=case_id, params=(), source=source, mesh={}, expected=None, about="", draws="")


def fails(case: CaseReport) -> bool:
    return case.status is Status.UNEXPECTED or case.status is Status.ERROR


def remember(
    folder: Path, last: LastRun | None, *reports: tuple[Source, CaseReport], selectors: tuple[str, ...] = ("mine.py",)
) -> LastRun:
    found = {(source, report.id) for source, report in reports if report.status is not Status.ERROR}
    undone = {(source, report.id, report.target) for source, report in reports if report.id in UNDONE}
    return remember_run(last, folder, reports, fails=fails, undone=undone, found=found, selectors=selectors)


def list_ids(last: LastRun) -> list[tuple[str, bool]]:
    return [(one.id, one.was_run) for one in last.cases]


UNDONE = {"unseen", "waiting"}

RIGHT, WRONG, UNSEEN = (
    make_case("right"),
    make_case("wrong", Status.UNEXPECTED),
    make_case("unseen", Status.NOT_CHECKED, outputs={}),
)


def test_cases_that_fail_or_are_not_run_are_remembered(tmp_path: Path) -> None:
    source = make_source(tmp_path, "mine.py")
    waiting = make_case("waiting", device=DeviceRun(device="", count=0, runs=0, error="the run was ended"))
    last = remember(tmp_path, None, *((source, one) for one in (RIGHT, WRONG, UNSEEN, waiting)))
    assert list_ids(last) == [("wrong", True), ("unseen", False), ("waiting", False)]


def test_a_run_changes_only_what_is_remembered_of_its_own_cases(tmp_path: Path) -> None:
    mine, other = make_source(tmp_path, "mine.py"), make_source(tmp_path, "other.py")
    last = remember(tmp_path, None, (mine, WRONG), (mine, UNSEEN), (other, WRONG), selectors=("mine.py", "other.py"))
    cured = make_case("wrong")
    after = remember(tmp_path, last, (mine, cured), selectors=("mine.py::wrong",))
    assert [(one.source, one.id) for one in after.cases] == [(mine, "unseen"), (other, "wrong")]
    on_another_gpu = remember(tmp_path, last, (mine, replace(cured, target="a100")), selectors=("mine.py::wrong",))
    assert len(on_another_gpu.cases) == 3


def test_a_case_or_a_file_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    mine, other = make_source(tmp_path, "mine.py"), make_source(tmp_path, "other.py")
    last = remember(tmp_path, None, (mine, WRONG), (other, WRONG), selectors=("mine.py", "other.py"))
    Path(other.file).unlink()
    assert list_ids(remember(tmp_path, last, (mine, RIGHT))) == []


def test_a_file_that_did_not_import_selects_all_of_its_cases(tmp_path: Path) -> None:
    mine = make_source(tmp_path, "mine.py")
    last = remember(tmp_path, None, (mine, make_case("mine.py", Status.ERROR, outputs={})))
    specs = [make_spec(mine, "a"), make_spec(mine, "b")]
    chosen = select_open_cases(specs, last, targets=("h100",), toolchain="default")
    assert [case.id for case in chosen.cases] == ["a", "b"]
    assert list_ids(remember(tmp_path, last, (mine, make_case("a")), (mine, make_case("b")))) == []


def test_those_that_failed_come_before_those_that_were_not_run(tmp_path: Path) -> None:
    mine = make_source(tmp_path, "mine.py")
    last = remember(tmp_path, None, *((mine, one) for one in (RIGHT, UNSEEN, WRONG)))
    specs = [make_spec(mine, one) for one in ("right", "unseen", "wrong")]
    chosen = select_open_cases(specs, last, targets=("h100", "a100"), toolchain="default")
    assert [case.id for case in chosen.cases] == ["wrong", "unseen"]
    assert len(chosen.cases) < len(specs)
    assert chosen.said == (
        "--last-failed: 2 of 3 cases, 1 not as expected when last run and 1 not run when last selected: "
        "`wrong`, `unseen`"
    )


@pytest.mark.parametrize(
    ("last", "targets", "said"),
    [
        (None, ("h100",), "no earlier run in this folder is recorded, so all 2 selected cases run"),
        ((), ("h100",), "every case of the last run was as expected, so all 2 selected cases run"),
        ((WRONG,), ("a100",), "none of the 1 remembered case is among those selected, so all 2 selected cases run"),
    ],
)
def test_all_cases_run_if_none_is_remembered(
    tmp_path: Path, last: tuple[CaseReport, ...] | None, targets: tuple[str, ...], said: str
) -> None:
    mine = make_source(tmp_path, "mine.py")
    specs = [make_spec(mine, "right"), make_spec(mine, "wrong")]
    known = None if last is None else remember(tmp_path, None, *((mine, one) for one in last))
    chosen = select_open_cases(specs, known, targets=targets, toolchain="default")
    assert chosen.cases == tuple(specs)
    assert chosen.said == f"--last-failed: {said}"


def test_a_record_is_read_back_and_belongs_to_one_folder(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    last = remember(tmp_path, None, (make_source(tmp_path, "mine.py"), WRONG))
    save_last_run(cache, last)
    assert load_last_run(cache, tmp_path) == last
    assert load_last_run(cache, tmp_path / "cache") is None


@pytest.mark.parametrize("spoil", ["folder", "format", "cases", "text", "size", "link"])
def test_a_record_that_cannot_be_trusted_counts_as_none(tmp_path: Path, spoil: str) -> None:
    cache = Cache(tmp_path / "cache")
    save_last_run(cache, remember(tmp_path, None, (make_source(tmp_path, "mine.py"), WRONG)))
    (path,) = (cache.root / RUNS).iterdir()
    fields = json.loads(path.read_text())
    changed = {"folder": "/elsewhere", "format": 99, "cases": [{"id": "wrong"}]}
    match spoil:
        case "text":
            path.write_text("[" * 200_000)
        case "size":
            path.write_text(json.dumps(fields) + " " * MAXIMUM_RECORD_BYTES)
        case "link":
            path.rename(tmp_path / "moved.json")
            path.symlink_to(tmp_path / "moved.json")
        case _:
            path.write_text(json.dumps(fields | {spoil: changed[spoil]}))
    assert load_last_run(cache, tmp_path) is None


def test_a_cache_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    (cache.root / RUNS).write_text("in the way")
    save_last_run(cache, remember(tmp_path, None, (make_source(tmp_path, "mine.py"), WRONG)))
    assert load_last_run(cache, tmp_path) is None


def find_selectors(folder: Path, last: LastRun | None, *, last_failed: bool = True) -> tuple[object, ...]:
    course = RunCourse(
        run=Run(),
        options=CheckOptions(selectors=(), cache_directory=folder),
        toolchain="default",
        policy=RunPolicy(fails=fails, last_failed=last_failed),
        known=KnownFindings(),
        find_recorded=lambda _: None,
        list_roots=lambda _: (),
        last=last,
    )
    return course.find_selectors()


def test_without_selectors_and_without_a_cases_folder_the_remembered_files_are_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine, other = make_source(tmp_path, "mine.py"), make_source(tmp_path, "other.py")
    last = remember(tmp_path, None, (mine, WRONG), (other, WRONG), (other, RIGHT))
    assert find_selectors(tmp_path, last) == (mine, other)
    assert find_selectors(tmp_path, last, last_failed=False) == ()
    assert find_selectors(tmp_path, None) == ()
    (tmp_path / "other.py").unlink()
    assert find_selectors(tmp_path, last) == (mine,)
    cases = tmp_path / "cases"
    cases.mkdir()
    (cases / "one.py").write_text("CASES = ()\n")
    assert find_selectors(tmp_path, last) == ()
