"""A campaign of `ligerdiag fuzz` keeps what it knows, goes on where it was, and says where witnesses contradict."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.fuzz import compute_exit_code, render_fuzz_report
from ligerdiag.codec import encode_record
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError
from ligerdiag.fuzz import campaign
from ligerdiag.fuzz.campaign import FuzzOptions, FuzzReport, JudgedProgram, judge_case, load_rows, run_campaign
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CheckReport, Disagreement, Progress
from tests.report.samples import make_case

ROW = JudgedProgram(seed=3, target="h100", outputs={"v": ("fresh", "fresh")})
WRONG = JudgedProgram(
    seed=4, target="h100", outputs={"v": ("fresh", "stale")}, contradictions={"verdict-fresh-stale": "`v` is both"}
)


def write(row: JudgedProgram) -> str:
    return json.dumps(encode_record(row)) + "\n"


def test_what_was_once_wrong_is_right(shared_cache: Path) -> None:
    file = Path(__file__).with_name("once_wrong.py")
    report = api.check(api.CheckOptions(selectors=(str(file),), cache_directory=shared_cache))
    assert [(case.id, case.mismatch) for case in report.cases if case.mismatch or case.error] == []
    assert [case.id for case in report.cases if case.disagreements or case.replay is None] == []


def test_a_campaign_judges_each_program_once(tmp_path: Path) -> None:
    told: list[Progress] = []
    first = run_campaign(FuzzOptions(directory=tmp_path, first=21, count=1, jobs=1), told.append)
    assert first.judged == 1
    assert first.list_contradictions() == []
    assert sum(first.count_outputs().values()) >= 3
    assert first.seconds > 0
    assert {one.total for one in told} == {1}
    assert not any((tmp_path / "cache" / "artifacts").iterdir())
    again = run_campaign(FuzzOptions(directory=tmp_path, first=21, count=1), told.append)
    assert (again.judged, again.rows) == (0, first.rows)


def test_a_line_that_was_not_written_to_its_end_is_judged_again(tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    path.write_text(write(ROW) + write(WRONG)[:40])
    assert load_rows(tmp_path, "h100").keys() == {3}
    assert path.read_text() == write(ROW)


def test_programs_of_another_target_are_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "programs.jsonl").write_text(write(ROW))
    with pytest.raises(InputError, match="a100"):
        load_rows(tmp_path, "a100")


def test_a_contradiction_is_named_by_what_contradicts() -> None:
    both = Disagreement(
        output="loss",
        static=Verdict.FRESH,
        numbers=Attribution.PARTLY_STALE,
        message="`loss` is fresh and partly stale",
    )
    row = judge_case(replace(make_case(id="fuzz[7]"), disagreements=(both,)))
    assert row.contradictions == {"verdict-fresh-partly-stale": "`loss` is fresh and partly stale"}


def test_a_false_alarm_around_an_unrolled_loop_is_a_limit_and_a_miss_is_not() -> None:
    """The first two have a note that iterations are not told apart."""
    notes = ("the loop around `carry_kernel` was unrolled or removed: its iterations are not told apart",)
    alarm, miss = {"verdict-stale-fresh": "`v` is both"}, {"verdict-fresh-stale": "`v` is both"}
    one = campaign.sort_out(replace(ROW, contradictions=alarm | miss, notes=notes), set())
    assert (one.contradictions, one.limits, one.coincidences) == (miss, alarm, {})
    two = campaign.sort_out(replace(ROW, contradictions=alarm, notes=notes), {"verdict-stale-fresh"})
    assert (two.contradictions, two.limits, two.coincidences) == ({}, {}, alarm)
    assert campaign.sort_out(replace(ROW, contradictions=alarm), set()).contradictions == alarm


def test_the_report_counts_and_the_exit_code_says_it() -> None:
    report = FuzzReport(rows={3: ROW, 4: WRONG}, judged=2, seconds=3.0)
    text = render_fuzz_report(report)
    assert "2 programs, 2 outputs" in text
    assert "seed 4: `v` is both" in text
    assert "1.5 processor seconds each" in text
    assert compute_exit_code(report) is ExitCode.NOT_ANALYSED
    assert compute_exit_code(FuzzReport(rows={3: ROW})) is ExitCode.AS_EXPECTED
    assert compute_exit_code(FuzzReport()) is ExitCode.NOTHING_CHECKED
    assert compute_exit_code(replace(report, ended_by=Ending.INTERRUPT)) is ExitCode.INTERRUPTED


def test_a_contradiction_is_written_once_and_again_only_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for `check`, whose verdicts are right: every case file shows the contradiction."""
    monkeypatch.setattr(campaign, "check", lambda *_: CheckReport(cases=(), targets=("h100",), toolchain="default"))
    (tmp_path / "programs.jsonl").write_text(write(WRONG))
    options = FuzzOptions(directory=tmp_path, first=4, count=1)
    report = run_campaign(options, lambda _: None)
    assert [path.name for path in report.files] == ["4-verdict-fresh-stale.py"]
    assert "fuzz[" not in report.files[0].read_text().partition("\n")[0]
    assert run_campaign(options, lambda _: None).files == ()


def test_a_campaign_that_is_ended_while_it_shrinks_leaves_that_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = CheckReport(cases=(), targets=("h100",), toolchain="default", interrupted=True, ended_by=Ending.TERMINATE)
    monkeypatch.setattr(campaign, "check", lambda *_: ended)
    (tmp_path / "programs.jsonl").write_text(write(WRONG))
    report = run_campaign(FuzzOptions(directory=tmp_path, first=4, count=9, jobs=1), lambda _: None)
    assert (report.ended_by, report.files, report.judged) == (Ending.TERMINATE, (), 0)
    assert compute_exit_code(report) is ExitCode.TERMINATED
