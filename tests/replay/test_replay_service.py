"""The replay workers: a case that ends its worker fails alone, and no process outlives its parent."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.model.findings import Attribution, Replay, ReplayState
from ligerdiag.model.report import Progress
from ligerdiag.replay.replay_service import ReplayOptions, ReplayTask, replay_artifacts
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool
from tests.replay.processes import find_descendants, is_running

ROOT = Path(__file__).parents[2]
TIMEOUT = 8.0
"""Seconds for the case that hangs. The others have as long as a busy machine needs."""
SECONDS = 600.0
"""The longest time that a test waits for an event in another process."""

PROGRAM = """\
import os
import subprocess
import time
from pathlib import Path

from ligerdiag import Arg, Case


def keep(x):
    return {"y": x + 1}


def right(x):
    return {"y": 1 + x}


def wrong(x):
    return {"y": x + 2}


def abort(x):
    print("about to abort", flush=True)
    os.abort()


def hang(x):
    child = subprocess.Popen(["sleep", "600"])
    print("about to hang", flush=True)
    if "MARK" in os.environ:
        Path(os.environ["MARK"]).touch()
    child.wait()


def fail(x):
    return {}["missing"]


def other_shape(x):
    return {"y": x.sum()}


REFERENCES = {"other shape": other_shape}
REFERENCES |= {"keep": right, "twin": right, "wrong": wrong, "abort": abort, "hang": hang, "fail": fail, "after": None}
CASES = tuple(Case(name=name, function=keep, args=(Arg(shape=(4,)),), reference=r) for name, r in REFERENCES.items())
CASES += (Case(name="meshed", function=keep, args=(Arg(shape=(4,)),), reference=fail, mesh={"x": 2}),)
CASES += (Case(name="infinite", function=lambda x: {"y": x / 0}, args=(Arg(shape=(4,)),), reference=right),)
"""


@dataclass
class Project:
    """A folder with cases and a separate cache."""

    folder: Path
    cache: Path
    events: list[Progress] = field(default_factory=list)

    def find_tasks(self, *case_ids: str) -> list[ReplayTask]:
        selectors = [f"mine.py::{case_id}" for case_id in case_ids] or ["mine.py"]
        with Pool(cache=Cache(self.cache), jobs=1) as pool:
            cases = discover_cases(selectors, pool=pool, directory=self.folder)
            results = list(compile_cases(cases, [load_target("h100")], pool=pool))
        order = [case.id for case in cases]
        tasks = [ReplayTask(case=r.case, target=r.target, artifact=r.artifact) for r in results if r.artifact]
        return sorted(tasks, key=lambda task: order.index(task.case.id))

    def replay(self, tasks: list[ReplayTask], **changes: object) -> dict[str, Replay]:
        options = replace(ReplayOptions(bounds=Bounds(), timeout=SECONDS, jobs=1), **changes)  # type: ignore[arg-type]
        self.events.clear()
        found = replay_artifacts(
            tasks,
            options,
            cache=Cache(self.cache),
            toolchain=current_toolchain(),
            report_progress=self.events.append,
        )
        return {task.case.id: replay for task, replay in found}

    def count_started(self) -> int:
        return sum(event.event == "started" for event in self.events)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with everything compiled and nothing replayed."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "mine.py").write_text(PROGRAM)
    project = Project(folder=folder, cache=folder / "cache")
    project.find_tasks()
    return project


@pytest.fixture
def project(shared: Project, tmp_path: Path) -> Iterator[Project]:
    """The same, with a separate cache."""
    cache = tmp_path / "cache"
    for name in ("artifacts", "index"):
        shutil.copytree(shared.cache / name, cache / name)
    yield Project(folder=shared.folder, cache=cache)
    (shared.folder / "mine.py").write_text(PROGRAM)


@pytest.fixture(scope="module")
def replays(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    cache = tmp_path_factory.mktemp("replays") / "cache"
    shutil.copytree(shared.cache, cache)
    project = Project(folder=shared.folder, cache=cache)
    tasks = project.find_tasks()
    hanging = [task for task in tasks if task.case.id == "hang"]
    return project.replay(hanging, timeout=TIMEOUT) | project.replay([task for task in tasks if task not in hanging])


def test_a_case_without_trouble_has_numbers(replays: dict[str, Replay]) -> None:
    replay = replays["keep"]
    assert (replay.state, replay.reason, replay.cached) == (ReplayState.DONE, "", False)
    assert set(replay.outputs) == {"y"}
    assert replay.outputs["y"].error == 0
    assert replay.outputs["y"].attribution in (Attribution.FRESH, Attribution.UNDECIDED)
    assert set(replay.reference) == {"y"}
    assert replay.estimated_bytes > 0


def test_a_correct_reference_is_within_the_tolerance_and_a_wrong_one_is_not(replays: dict[str, Replay]) -> None:
    right, wrong = replays["keep"], replays["wrong"]
    assert right.reference["y"] <= right.reference_tolerance["y"]
    assert wrong.reference["y"] > wrong.reference_tolerance["y"]


def test_a_non_finite_result_with_a_finite_reference_counts_as_wrong(replays: dict[str, Replay]) -> None:
    assert replays["infinite"].state is ReplayState.DONE
    assert replays["infinite"].reference == {"y": math.inf}


def test_a_reference_that_kills_the_process_fails_only_its_case(replays: dict[str, Replay]) -> None:
    replay = replays["abort"]
    assert replay.state is ReplayState.FAILED
    assert replay.reason.startswith("the worker for the replay was aborted by signal 6 (SIGABRT)")
    assert replay.outputs == {}


def test_a_reference_that_hangs_is_ended(replays: dict[str, Replay]) -> None:
    assert replays["hang"].state is ReplayState.FAILED
    assert replays["hang"].reason == "the worker for the replay did not answer within 8 s and was ended: about to hang"


def test_a_reference_that_raises_is_reported_with_the_user_s_line(replays: dict[str, Replay], shared: Project) -> None:
    line = PROGRAM.splitlines().index('    return {}["missing"]') + 1
    assert replays["fail"].state is ReplayState.FAILED
    assert f"{shared.folder / 'mine.py'}:{line}: KeyError: 'missing'" in replays["fail"].reason
    assert "\n" not in replays["fail"].reason


def test_a_reference_of_another_shape_or_for_a_mesh_is_named(replays: dict[str, Replay]) -> None:
    assert (
        replays["other shape"].reason
        == "the output `y` of the case's reference has the shape [], but that of the program has [4]"
    )
    assert replays["meshed"].reason.startswith(
        "the case's reference function raises, perhaps because it runs without a mesh (write it without shards): "
    )


def test_the_case_after_these_failures_is_replayed(replays: dict[str, Replay]) -> None:
    assert replays["after"].state is ReplayState.DONE
    assert replays["after"].reference == {}


def test_equal_programs_with_equal_arguments_and_references_are_replayed_once(project: Project) -> None:
    found = project.replay(project.find_tasks("keep", "twin", "after"))
    assert found["keep"] == found["twin"]
    assert project.count_started() == 2
    assert [event.done for event in project.events if event.event == "finished"] == [1, 2, 3]
    assert {event.total for event in project.events} == {3}
    assert {event.phase for event in project.events} == {"replay"}


def test_the_second_time_comes_from_the_cache_and_starts_no_worker(project: Project) -> None:
    tasks = project.find_tasks("keep", "abort")
    first, second = project.replay(tasks), project.replay(tasks)
    assert second["keep"] == replace(first["keep"], cached=True)
    assert project.count_started() == 1, "what a worker died of is tried again"
    assert not second["abort"].cached


def test_a_changed_file_of_the_project_is_a_miss(project: Project) -> None:
    project.replay(project.find_tasks("keep"))
    (project.folder / "mine.py").write_text(PROGRAM.replace("1 + x", "3 + x"))
    found = project.replay(project.find_tasks("keep"))
    assert not found["keep"].cached
    assert found["keep"].reference["y"] > found["keep"].reference_tolerance["y"]


def test_a_refresh_replays_again_and_rows_have_another_key(project: Project) -> None:
    tasks = project.find_tasks("keep")
    project.replay(tasks)
    assert not project.replay(tasks, refresh=True)["keep"].cached
    rows = project.replay(tasks, rows=True)["keep"]
    assert not rows.cached
    assert rows.outputs["y"].rows == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dependencies": {}, "answer": {"replay": {}}}', "\xff"])
def test_an_unreadable_entry_is_a_miss(project: Project, text: str) -> None:
    tasks = project.find_tasks("keep")
    project.replay(tasks)
    for path in (project.cache / "replays").glob("*.json"):
        path.write_text(text, encoding="latin-1")
    found = project.replay(tasks)["keep"]
    assert (found.state, found.cached) == (ReplayState.DONE, False)


def test_a_replay_above_the_bounds_starts_no_worker_and_is_not_stored(project: Project) -> None:
    tasks = project.find_tasks("keep")
    for bounds in (Bounds(seconds=1e-9), Bounds(memory=1)):
        found = project.replay(tasks, bounds=bounds)["keep"]
        assert found.state is ReplayState.TOO_LARGE
        assert "`--full` replays it" in found.reason
        assert project.count_started() == 0
    assert project.replay(tasks, bounds=Bounds(seconds=1e-9, memory=1, full=True))["keep"].state is ReplayState.DONE
    assert project.replay(tasks, bounds=Bounds(seconds=1e-9))["keep"].cached, "it is there, so it costs nothing"


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
from pathlib import Path
from tests.replay.test_replay_service import Project
project = Project(folder=Path(sys.argv[1]), cache=Path(sys.argv[2]))
project.replay(project.find_tasks("hang"), timeout=600.0)
"""


@pytest.fixture
def hanging(project: Project, own_templates: None) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """One of our processes whose replay hangs, and its descendants."""
    mark = project.cache / "mark"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(project.folder), str(project.cache)],
        cwd=ROOT,
        env=os.environ | {"MARK": str(mark)},
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + SECONDS
    while not mark.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert mark.exists()
    below = find_descendants(process.pid)
    assert len(below) >= 2, "the worker, and what the case's reference started"
    yield process, below
    process.kill()
    process.communicate()


def test_ctrl_c_leaves_no_process_and_nothing_half_written(
    hanging: tuple[subprocess.Popen[bytes], list[int]], project: Project
) -> None:
    process, below = hanging
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert b"KeyboardInterrupt" in errors
    wait_until_gone(below)
    assert list(project.cache.rglob(".tmp-*")) == []


def test_a_worker_and_its_child_processes_end_with_their_parent(
    hanging: tuple[subprocess.Popen[bytes], list[int]], project: Project
) -> None:
    process, below = hanging
    process.kill()
    process.communicate(timeout=SECONDS)
    wait_until_gone(below)
    assert list(project.cache.rglob(".tmp-*")) == []


def wait_until_gone(processes: list[int]) -> None:
    end = time.monotonic() + SECONDS
    while any(is_running(pid) for pid in processes) and time.monotonic() < end:
        time.sleep(0.1)
    assert [pid for pid in processes if is_running(pid)] == []
