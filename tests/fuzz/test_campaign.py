"""A campaign of `python -m tools.fuzz` keeps its rows, continues after an interruption, and reports contradictions."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.codec import encode_record
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, Progress
from tests.report.samples import make_case
from tools.fuzz import campaign
from tools.fuzz.__main__ import compute_exit_code
from tools.fuzz.campaign import run_campaign
from tools.fuzz.campaign_report import render_fuzz_report
from tools.fuzz.judged_programs import (
    FuzzOptions,
    FuzzReport,
    JudgedProgram,
    find_contradictions,
    find_outcomes,
    judge_case,
    load_rows,
)

ROW = JudgedProgram(seed=3, target="h100", outputs={"v": ("fresh", "fresh")})
WRONG = JudgedProgram(
    seed=4, target="h100", outputs={"v": ("fresh", "stale")}, contradictions={"verdict-fresh-wrong": "`v` is both"}
)


def write(row: JudgedProgram) -> str:
    return json.dumps(encode_record(row)) + "\n"


def test_programs_once_misjudged_are_judged_right(shared_cache: Path) -> None:
    names = ("once_wrong.py", "once_missed.py", "once_taken_for_another.py")
    files = [str(Path(__file__).with_name(name)) for name in names]
    report = api.check(api.CheckOptions(selectors=tuple(files), cache_directory=shared_cache))
    assert [(case.id, case.mismatch) for case in report.cases if case.mismatch or case.error] == []
    assert [case.id for case in report.cases if case.disagreements or case.replay is None] == []


def test_a_campaign_judges_each_program_once(tmp_path: Path) -> None:
    progress: list[Progress] = []
    first = run_campaign(FuzzOptions(directory=tmp_path, first=21, count=1, jobs=1), progress.append)
    assert first.judged == 1
    assert first.list_contradictions() == []
    assert sum(first.count_outputs().values()) >= 3
    assert first.seconds > 0
    assert {one.total for one in progress} == {1}
    (row,) = first.rows.values()
    assert row.draws >= 1
    assert row.looks.keys() == row.opaque.keys() == row.outputs.keys()
    assert set(row.opaque.values()) <= {"right", "wrong", "alike"}
    assert not any((tmp_path / "cache" / "artifacts").iterdir())
    again = run_campaign(FuzzOptions(directory=tmp_path, first=21, count=1), progress.append)
    assert (again.judged, again.rows) == (0, first.rows)


def test_the_program_of_an_incomplete_line_is_judged_again(tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    path.write_text(write(ROW) + write(WRONG)[:40])
    assert load_rows(tmp_path, "h100").keys() == {3}
    assert path.read_text() == write(ROW)


def test_rows_of_another_target_are_refused(tmp_path: Path) -> None:
    (tmp_path / "programs.jsonl").write_text(write(ROW))
    with pytest.raises(InputError, match="a100"):
        load_rows(tmp_path, "a100")


@pytest.mark.parametrize(
    ("verdict", "first", "look", "kinds"),
    [
        ("fresh", "partly stale", ("right", 0.1), ["verdict-fresh-wrong"]),
        ("fresh", "neither", ("right", 0.1), []),  # rounding that the dtypes do not show
        ("fresh", "neither", ("wrong", 9.0), ["verdict-fresh-wrong"]),
        ("latent", "fresh", ("wrong", 9.0), ["verdict-latent-wrong"]),  # a small term of a large sum
        ("stale", "fresh", ("wrong", 1e5), []),  # another draw takes the branch
        ("stale", "fresh", ("alike", 4.0), []),
        ("clobbered", "fresh", ("right", 0.5), ["verdict-clobbered-right"]),
        ("unknown", "fresh", ("right", 0.5), []),
    ],
)
def test_all_draws_decide_whether_a_verdict_is_contradicted(
    verdict: str, first: str, look: tuple[str, float], kinds: list[str]
) -> None:
    row = find_contradictions(replace(ROW, outputs={"v": (verdict, first)}, looks={"v": look}))
    assert list(row.contradictions) == kinds
    if kinds == ["verdict-clobbered-right"]:
        notes = ("the loop around `carry_kernel` was unrolled or removed: its iterations cannot be progress apart",)
        limited = find_contradictions(replace(row, contradictions={}, notes=notes))
        assert (limited.contradictions, list(limited.limits)) == ({}, kinds)


def test_right_numbers_contradict_no_verdict_on_an_output_that_depends_on_shared_bytes() -> None:
    row = replace(ROW, outputs={"v": ("clobbered", "fresh")}, looks={"v": ("right", 0.0)}, shared=("v",))
    assert find_outcomes(row) == {"v": "alike"}
    assert find_contradictions(row).contradictions == {}
    assert find_outcomes(replace(row, looks={"v": ("wrong", 9.0)})) == {"v": "wrong"}


def test_the_first_draw_decides_if_there_is_no_other() -> None:
    row = judge_case(replace(make_case(id="fuzz[7]"), error="the worker was killed"))
    assert list(row.contradictions) == ["fault"]
    seen = {"fresh": "right", "stale": "wrong", "undecided": "alike", "none": "none"}
    for numbers, word in seen.items():
        assert find_outcomes(replace(ROW, outputs={"v": ("fresh", numbers)})) == {"v": word}


def test_the_report_and_the_exit_code_show_contradictions() -> None:
    report = FuzzReport(rows={3: ROW, 4: WRONG}, judged=2, seconds=3.0)
    text = render_fuzz_report(report)
    assert "2 programs, 2 outputs" in text
    assert "1 of 1 wrong outputs are called right (100.0%)" in text
    assert "seed 4: `v` is both" in text
    assert "1.5 processor seconds each" in text
    assert compute_exit_code(report) is ExitCode.NOT_ANALYSED
    assert compute_exit_code(FuzzReport(rows={3: ROW})) is ExitCode.AS_EXPECTED
    assert compute_exit_code(FuzzReport()) is ExitCode.NOTHING_CHECKED
    assert compute_exit_code(replace(report, ended_by=Ending.INTERRUPT)) is ExitCode.INTERRUPTED


def test_a_contradiction_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real `check` would judge the program right; with the fake one every case file shows the contradiction."""
    monkeypatch.setattr(campaign, "check", lambda *_: CheckReport(cases=(), targets=("h100",), toolchain="default"))
    (tmp_path / "programs.jsonl").write_text(write(WRONG))
    options = FuzzOptions(directory=tmp_path, first=4, count=1)
    report = run_campaign(options, lambda _: None)
    assert [path.name for path in report.files] == ["4-verdict-fresh-wrong.py"]
    assert "fuzz[" not in report.files[0].read_text().partition("\n")[0]
    assert run_campaign(options, lambda _: None).files == ()


def test_a_campaign_interrupted_while_shrinking_leaves_that_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = CheckReport(cases=(), targets=("h100",), toolchain="default", interrupted=True, ended_by=Ending.TERMINATE)
    monkeypatch.setattr(campaign, "check", lambda *_: ended)
    (tmp_path / "programs.jsonl").write_text(write(WRONG))
    report = run_campaign(FuzzOptions(directory=tmp_path, first=4, count=9, jobs=1), lambda _: None)
    assert (report.ended_by, report.files, report.judged) == (Ending.TERMINATE, (), 0)
    assert compute_exit_code(report) is ExitCode.TERMINATED


@pytest.mark.parametrize(
    ("verdict", "look", "opaque", "kinds"),
    [
        ("fresh", ("right", 0.1), "right", []),
        ("fresh", ("right", 0.1), "alike", []),
        ("stale", ("wrong", 90.0), "wrong", []),
        ("stale", ("wrong", 90.0), "alike", []),
        ("fresh", ("alike", 3.0), "wrong", ["opaque-fresh-wrong"]),
        ("latent", ("right", 0.1), "wrong", ["opaque-latent-wrong", "opaque-wrong-right"]),
        ("stale", ("alike", 3.0), "right", ["opaque-stale-right"]),
        ("stale", ("wrong", 90.0), "right", ["opaque-right-wrong", "opaque-stale-right"]),
        ("unknown", ("wrong", 90.0), "right", ["opaque-right-wrong"]),
        ("unknown", ("alike", 3.0), "wrong", []),
    ],
)
def test_opaque_functions_may_contradict_a_verdict_or_the_numbers(
    verdict: str, look: tuple[str, float], opaque: str, kinds: list[str]
) -> None:
    numbers = "stale" if look[0] == "wrong" else "fresh"
    row = JudgedProgram(
        seed=1, target="h100", outputs={"v": (verdict, numbers)}, looks={"v": look}, opaque={"v": opaque}
    )
    assert sorted(find_contradictions(row).contradictions) == kinds
