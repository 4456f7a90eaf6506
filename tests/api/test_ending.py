"""A run that ends early names the missing steps of each case."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.api.inspecting import DumpSelection, InspectedModules
from ligerdiag.api.judging import Run
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.ending import Ending
from ligerdiag.errors import CompileError
from ligerdiag.inspection.module_inspection import ModuleOutcome
from ligerdiag.model.findings import DeviceRun, OpaqueReplay, Replay, ReplayState, Verdict
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import Identity, Progress, Status, refuse
from tests.report.samples import make_judged

SOURCE = Source(file="/mine.py", root="/")
WHY = "the run was ended by SIGTERM before its turn"


@pytest.fixture
def run() -> Run:
    names = ("done", "replayed", "compiled", "broken", "unseen")
    one = Run(order=tuple((SOURCE, name, "h100") for name in names))
    for name in names:
        case = CaseSpec(id=name, name=name, params=(), source=SOURCE, mesh={}, expected="fresh", about="", draws="")
        one.cases[SOURCE, name] = case
    for name in names[:3]:
        one.judged[SOURCE, name, "h100"] = make_judged(name, outputs={"y": Verdict.FRESH})
    one.judged[SOURCE, "broken", "h100"] = refuse(Identity(id="broken", target="h100"), CompileError("aborted"))
    for name in names[:2]:
        one.replays[SOURCE, name, "h100"] = Replay(state=ReplayState.DONE)
    one.devices[SOURCE, "done", "h100"] = DeviceRun(device="NVIDIA H200", count=1, runs=3)
    return one


def test_each_case_says_which_steps_were_not_done(run: Run) -> None:
    judged, replays, devices = dict(run.judged), dict(run.replays), dict(run.devices)
    run.mark_undone(Ending.TERMINATE, "default", replay=True, device=True)
    done, replayed, compiled, broken, unseen = run.order
    assert {key: run.judged[key] for key in run.order[:-1]} == judged
    assert (run.replays[done], run.replays[replayed], run.devices[done]) == (*replays.values(), *devices.values())
    for key in (replayed, compiled):
        assert (run.devices[key].error, run.devices[key].died) == (WHY, False)
    assert (run.replays[compiled].state, run.replays[compiled].reason) == (ReplayState.NOT_DONE, WHY)
    assert not {broken, unseen} & {*run.replays, *run.devices}
    assert run.undone == {replayed, compiled, unseen}
    case = api.conclude(run.judged[unseen])
    assert (case.status, case.error, case.outputs, case.expected) == (Status.NOT_CHECKED, WHY, {}, "fresh")
    assert case.source == "/mine.py"


def test_steps_that_were_not_requested_are_not_reported_as_missing(run: Run) -> None:
    run.mark_undone(Ending.TERMINATE, "default", replay=False, device=False)
    assert run.order[2] not in {*run.replays, *run.devices}


def test_a_replay_with_opaque_functions_that_was_not_done_is_named(run: Run) -> None:
    done, replayed, compiled, *_ = run.order
    run.replays[replayed] = Replay(state=ReplayState.NOT_COVERED)
    run.mark_undone(Ending.TERMINATE, "default", replay=True, device=False)
    assert run.replays[done].opaque is None
    assert run.replays[replayed].opaque == OpaqueReplay(state=ReplayState.NOT_DONE, reason=WHY)
    assert replayed in run.undone
    assert run.replays[compiled].opaque is None
    run.mark_undone(Ending.TERMINATE, "default", replay=True, device=False, opaque=True)
    assert run.replays[done].opaque == OpaqueReplay(state=ReplayState.NOT_DONE, reason=WHY)


def test_modules_after_the_end_of_the_run_are_not_checked(tmp_path: Path) -> None:
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


def test_a_module_whose_replay_was_ended_keeps_its_verdicts() -> None:
    judged = make_judged("a", outputs={"y": Verdict.FRESH})

    class Interrupted:
        def inspect_artifact(self, directory: Path) -> ModuleOutcome:
            raise AssertionError(directory)

        def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
            return ModuleOutcome(judged=judged, replay_seconds=1.0)

        def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
            raise KeyboardInterrupt

    modules = tuple(ModuleFiles(id=name, target="h100", optimized=(Path(name),)) for name in "ab")
    inspected = InspectedModules(DumpSelection(modules=modules, artifacts=(), notes=()))
    with pytest.raises(KeyboardInterrupt):
        list(inspected.run(Interrupted()))
    inspected.mark_undone(Ending.TERMINATE)
    assert inspected.judged[0] is judged
    first, second = inspected.replays
    assert first is not None
    assert (first.state, first.reason) == (ReplayState.NOT_DONE, WHY)
    assert second is None
    assert [one.identity.id for one in inspected.judged] == ["a", "b"]
