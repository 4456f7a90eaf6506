"""The campaign that compares opaque functions with numbers and recorded answers, and its summary."""

from pathlib import Path
from time import time

import pytest

from ligerdiag.model.report import Progress
from tools.fuzz.processes import append_row
from tools.opaque_agreement import main, render
from tools.opaque_corpus import OutputRow, ProgramRow, judge_programs, load_programs


def _ignore(progress: Progress) -> None:
    del progress


def _make_row(*, verdict: str, real: str, opaque: str) -> ProgramRow:
    output = OutputRow(verdict=verdict, real=real, opaque=opaque, error=0.5, distance=1.0, tolerance=1e-10)
    return ProgramRow(name="fuzz[7]", seed=7, outputs={"a": output}, real_state="done", opaque_state="done")


@pytest.mark.parametrize(
    ("verdict", "real", "opaque", "answer", "contradicted"),
    [
        ("fresh", "fresh", "fresh", "r", ""),
        ("stale", "stale", "neither", "w", ""),
        ("fresh", "undecided", "stale", "-", "the verdict"),
        ("stale", "fresh", "stale", "w", "the numbers"),
        ("stale", "stale", "fresh", "w", "the numbers and the answer"),
        ("stale", "fresh", "fresh", "w", "the answer"),
        ("fresh", "fresh", "stale", "r", "the verdict and the numbers and the answer"),
        ("fresh", "fresh", "undecided", "w", ""),
    ],
)
def test_the_summary_names_each_output_that_opaque_functions_contradict(
    verdict: str, real: str, opaque: str, answer: str, contradicted: str
) -> None:
    text = "\n".join(render([_make_row(verdict=verdict, real=real, opaque=opaque)], {7: answer}))
    assert f"| {verdict} | {real} | {opaque} | 1 |" in text
    found = text.partition("opaque functions contradict ")[2]
    assert found.partition("\n")[0] == contradicted


def test_a_run_continues_after_the_programs_that_have_a_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, ProgramRow(name="fuzz[710000]", seed=710000))
    with path.open("a") as file:
        file.write('{"name": "fuzz[7')  # of a process that was killed
    assert judge_programs([710000, 713027], path, _ignore, jobs=2, until=None, timeout=120.0) == ()
    rows = load_programs(path)
    assert list(rows) == [710000, 713027]
    assert rows[710000].outputs == {}
    found = {(one.verdict, one.real, one.opaque) for one in rows[713027].outputs.values()}
    assert found == {("stale", "stale", "stale"), ("fresh", "fresh", "fresh")}
    assert rows[713027].is_whole


def test_a_run_begins_no_program_after_its_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert judge_programs([710000], path, _ignore, jobs=1, until=time() - 1.0, timeout=120.0) == ()
    assert load_programs(path) == {}


def test_a_corpus_needs_a_file_for_its_rows() -> None:
    with pytest.raises(SystemExit):
        main(["--corpus", "tests/fuzz/corpus.txt"])
