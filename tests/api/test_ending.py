"""A run that is ended before everything was done says of each case what was not."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.api.judging import Run
from ligerdiag.ending import Ending
from ligerdiag.model.findings import DeviceRun, Replay, ReplayState, Verdict
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, Progress, Status

SOURCE = Source(file="/mine.py", root="/")
WHY = "the run was ended by SIGTERM before its turn"


def make_report(name: str, **changes: object) -> CaseReport:
    fields: dict[str, object] = {"id": name, "target": "h100", "toolchain": "default", "status": Status.ERROR}
    return CaseReport(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def run() -> Run:
    names = ("done", "replayed", "compiled", "broken", "unseen")
    one = Run(order=tuple((SOURCE, name, "h100") for name in names))
    for name in names:
        case = CaseSpec(id=name, name=name, params=(), source=SOURCE, mesh={}, expected="fresh", about="", draws="")
        one.cases[SOURCE, name] = case
    outputs = {"y": Verdict.FRESH}
    replay = Replay(state=ReplayState.DONE)
    for report in (
        make_report("done", outputs=outputs, replay=replay, device=DeviceRun(device="NVIDIA H200", count=1, runs=3)),
        make_report("replayed", outputs=outputs, replay=replay),
        make_report("compiled", outputs=outputs),
        make_report("broken", error="aborted"),
    ):
        one.reports[SOURCE, report.id, "h100"] = report
    return one


def test_each_case_says_what_was_not_done(run: Run) -> None:
    before = dict(run.reports)
    run.mark_undone(Ending.TERMINATE, "default", replay=True, device=True)
    done, replayed, compiled, broken, unseen = (run.reports[key] for key in run.order)
    assert (done, broken) == (before[run.order[0]], before[run.order[3]])
    assert replayed.replay == done.replay
    assert replayed.device is not None
    assert (replayed.device.error, replayed.device.died) == (WHY, False)
    assert compiled.replay is not None
    assert compiled.device is not None
    assert (compiled.replay.state, compiled.replay.reason, compiled.device.error) == (ReplayState.NOT_DONE, WHY, WHY)
    assert (unseen.status, unseen.error, unseen.outputs, unseen.expected) == (Status.NOT_CHECKED, WHY, {}, "fresh")
    assert unseen.source == "/mine.py"


def test_what_nobody_asked_for_is_not_missed(run: Run) -> None:
    run.mark_undone(Ending.TERMINATE, "default", replay=False, device=False)
    compiled = run.reports[run.order[2]]
    assert (compiled.replay, compiled.device) == (None, None)


def test_modules_that_inspect_did_not_come_to_are_not_checked(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(
            f"HloModule {name}, is_scheduled=true\n\nENTRY main {{\n  ROOT p = f32[] parameter(0)\n}}\n"
        )

    def interrupt(progress: Progress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    options = api.InspectOptions(paths=(tmp_path / "one.txt", tmp_path / "two.txt"), cache_directory=tmp_path / "c")
    report = api.inspect(options, interrupt)
    assert (report.interrupted, report.ended_by) == (True, Ending.INTERRUPT)
    (case,) = report.cases
    assert (case.status, case.error) == (Status.NOT_CHECKED, "the run was ended by Ctrl-C before its turn")
    assert "two" in case.id
