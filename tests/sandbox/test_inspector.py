"""When a process dies, only the module it was reading is lost; none of its output is trusted."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleOutcome
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import Refusal
from ligerdiag.sandbox import inspector as inspector_module
from ligerdiag.sandbox.inspector import SandboxedInspector
from tests.sandbox.hostile import ROOT


@pytest.fixture
def inspector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxedInspector]:
    monkeypatch.setattr(inspector_module, "CHILD", "tests.sandbox.programs.dying_child")
    with SandboxedInspector(InspectionRequest(timeout=0.5), cache=Cache(tmp_path / "cache")) as opened:
        yield opened


def look(inspector: SandboxedInspector, name: str) -> ModuleOutcome:
    return inspector.inspect_module(ModuleFiles(id=name, target="", optimized=(Path("missing.hlo.pb"),)))


def read_pid(outcome: ModuleOutcome) -> str:
    (pid,) = outcome.notes
    return pid


def test_one_process_reads_all_modules_while_it_behaves(inspector: SandboxedInspector) -> None:
    first, second = (read_pid(look(inspector, name)) for name in "ab")
    assert first == second
    assert read_pid(look(inspector, "swell")) == first
    assert read_pid(look(inspector, "c")) != first


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("abort", r"was ended by signal 6 \(SIGABRT\)"),
        ("kill", r"was ended by signal 9 \(SIGKILL\), perhaps out of memory"),
        ("leave", "ended with exit code 7"),
        ("raise", "ended with exit code 1: AssertionError: a bug of ours"),
        ("spin", r"was ended by signal 26 \(SIGVTALRM\): it exceeded its limit of processor time"),
        ("lie", "gave an answer that cannot be read: expected"),
        ("pickle", "gave an answer that cannot be read: expected"),
    ],
)
def test_a_process_that_dies_costs_one_module(inspector: SandboxedInspector, name: str, how: str) -> None:
    before = read_pid(look(inspector, "a"))
    judged = look(inspector, name).judged
    assert judged is not None
    assert isinstance(judged.result, Refusal)
    assert re.match(f"the process that analysed `{name}` {how}", judged.result.error)
    assert "\n" not in judged.result.error
    assert judged.result.exit_code == 3
    assert judged.identity.artifact == "missing.hlo.pb"
    assert read_pid(look(inspector, "b")) != before


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("abort in replay", r"was ended by signal 6 \(SIGABRT\)"),
        ("spin in replay", r"was ended by signal 26 \(SIGVTALRM\)"),
    ],
)
def test_a_process_that_dies_in_a_replay_costs_only_the_numbers(
    inspector: SandboxedInspector, name: str, how: str
) -> None:
    files = ModuleFiles(id=name, target="", optimized=(Path("missing.hlo.pb"),))
    before = read_pid(inspector.inspect_module(files))
    replay = inspector.replay(files, 0.5).replay
    assert replay is not None
    assert replay.state is ReplayState.FAILED
    assert re.match(f"the process that replayed `{name}` {how}", replay.reason)
    after = read_pid(look(inspector, "a"))
    assert after != before
    done = inspector.replay(ModuleFiles(id="a", target="", optimized=(Path("missing.hlo.pb"),)), 0.5).replay
    assert done is not None
    assert done.reason == after


def test_child_processes_have_a_time_limit_too(inspector: SandboxedInspector) -> None:
    assert look(inspector, "delegate").notes == ("0",)


def test_a_hijacked_process_changes_none_of_our_files(
    inspector: SandboxedInspector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tmp_path / "cache" / "effects" / "entry.json"
    entry.parent.mkdir()
    entry.write_text("true")
    monkeypatch.setenv("VICTIM", str(entry))
    (said,) = look(inspector, "vandal").notes
    if any("the right to write to your files" in line for line in inspector.confinement.refused):
        pytest.skip(str(inspector.confinement.refused))
    assert said == "Permission denied"
    assert entry.read_text() == "true"


def test_files_of_a_process_are_deleted_when_it_ends(inspector: SandboxedInspector) -> None:
    look(inspector, "a")
    (folder,) = [path for path in inspector._folder.iterdir() if path.is_dir()]  # pyright: ignore[reportPrivateUsage]
    assert (folder / "cache" / "effects").is_dir()
    look(inspector, "kill")
    assert not folder.exists()


def test_a_process_that_sleeps_is_ended_by_the_clock(
    inspector: SandboxedInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(inspector, "a")
    monkeypatch.setattr(inspector_module, "WALL_SECONDS", 0.5)
    monkeypatch.setattr(inspector_module, "WALL_FACTOR", 0.0)
    judged = look(inspector, "sleep").judged
    assert judged is not None
    assert isinstance(judged.result, Refusal)
    assert "of wall-clock time and was ended" in judged.result.error


ABANDONED = """
import os, signal, sys
from pathlib import Path
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.inspection.module_inspection import InspectionRequest
from ligerdiag.sandbox import inspector
inspector.CHILD = "tests.sandbox.programs.dying_child"
with inspector.SandboxedInspector(InspectionRequest(timeout=60), cache=Cache(Path(sys.argv[1]))) as opened:
    print(opened.inspect_module(ModuleFiles(id="a", target="", optimized=(Path("x"),))).notes[0], flush=True)
    opened.inspect_module(ModuleFiles(id="sleep", target="", optimized=(Path("x"),)))
"""


def test_the_process_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ABANDONED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
    end = monotonic() + 600
    while is_running(child):
        assert monotonic() < end
        sleep(0.05)


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


CONFINED = """
import resource
from pathlib import Path
from ligerdiag.sandbox.child import confine
refused = confine(Path.cwd()).refused
print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE)[1], bool(refused))
print([line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]])
"""


def test_the_process_gives_up_every_right_that_the_kernel_lets_it() -> None:
    done = subprocess.run([sys.executable, "-c", CONFINED], cwd=ROOT, capture_output=True, text=True, check=True)
    limits, names = done.stdout.splitlines()
    assert limits in ("(0, 0) 1024 False", "(0, 0) 1024 True")
    assert names == "['lo']" or limits.endswith("True")


ORPHANED = """
import os, sys
from ligerdiag.sandbox import inspector
inspector.CHILD = "tests.sandbox.programs.deaf_child"
from pathlib import Path
child = inspector._Child(Path(sys.argv[1]), dict(os.environ))
print(child._process.stdout.readline().decode(), end="", flush=True)
sys.stdin.read()
"""


def test_a_process_that_still_imports_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHANED, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
    end = monotonic() + 600
    while is_running(child):
        assert monotonic() < end
        sleep(0.05)
