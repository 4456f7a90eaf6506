"""The cache is read without jax, missed after any change, and never left half-written."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.artifacts.cache import EFFECTS, Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import ArtifactError, CompileError
from ligerdiag.model.jobs import Variation
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]

MINE = """import helper
from ligerdiag import Arg, Case
CASE = Case(name="mine", function=helper.f, args=(Arg(shape=(4,)),))
"""
HELPER = "import jax.numpy as jnp\n\ndef f(x):\n    return x + 1\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def compile_mine(project: Path, pool: Pool, target: Target, **keywords: bool) -> CompileResult:
    (case,) = discover_cases(["mine.py"], pool=pool, directory=project)
    (result,) = compile_cases([case], [target], pool=pool, **keywords)
    assert result.error is None
    return result


def test_the_second_time_comes_from_the_cache(project: Path, pool: Pool, h100: Target) -> None:
    first, second = (compile_mine(project, pool, h100) for _ in range(2))
    assert (first.cached, second.cached, second.seconds) == (False, True, 0.0)
    assert first.artifact == second.artifact


def test_a_changed_import_is_a_miss(project: Path, pool: Pool, h100: Target) -> None:
    first = compile_mine(project, pool, h100)
    (project / "helper.py").write_text(HELPER.replace("x + 1", "x + 2"))
    second = compile_mine(project, pool, h100)
    assert not second.cached
    assert first.artifact is not None
    assert second.artifact is not None
    assert first.artifact.directory != second.artifact.directory
    assert not (project / "__pycache__").exists()


def test_another_target_is_a_miss(project: Path, pool: Pool, h100: Target) -> None:
    compile_mine(project, pool, h100)
    other = Target(name="h100", description=h100.description + "\n# x", compute_capability=90, path=h100.path)
    assert compile_mine(project, pool, other).cached
    changed = h100.description.replace("core_count: 132", "core_count: 131")
    other = Target(name="h100", description=changed, compute_capability=90, path=h100.path)
    assert not compile_mine(project, pool, other).cached


def test_a_refresh_compiles_again(project: Path, pool: Pool, h100: Target) -> None:
    first = compile_mine(project, pool, h100)
    assert first.artifact is not None
    before = (first.artifact.directory / "manifest.json").stat().st_mtime_ns
    again = compile_mine(project, pool, h100, refresh=True)
    assert not again.cached
    assert again.artifact is not None
    assert (again.artifact.directory / "manifest.json").stat().st_mtime_ns > before


@pytest.mark.parametrize("name", ["optimized.hlo.pb", "manifest.json", "provenance.json"])
def test_a_truncated_artifact_is_noticed_and_compiled_again(project: Path, pool: Pool, h100: Target, name: str) -> None:
    first = compile_mine(project, pool, h100)
    assert first.artifact is not None
    path = first.artifact.directory / name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ArtifactError, match="is damaged, or is not an artifact") as caught:
        load_artifact(first.artifact.directory)
    assert "\n" not in str(caught.value)
    second = compile_mine(project, pool, h100)
    assert not second.cached
    assert load_artifact(first.artifact.directory) == second.artifact


def test_a_changed_byte_is_noticed(project: Path, pool: Pool, h100: Target) -> None:
    artifact = compile_mine(project, pool, h100).artifact
    assert artifact is not None
    data = bytearray(artifact.optimized.read_bytes())
    data[-1] ^= 1
    artifact.optimized.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"the sha256 of `optimized.hlo.pb` differs"):
        load_artifact(artifact.directory)


def test_a_manifest_cannot_name_files_elsewhere(project: Path, pool: Pool, h100: Target, tmp_path: Path) -> None:
    artifact = compile_mine(project, pool, h100).artifact
    assert artifact is not None
    copy = tmp_path / "copy"
    shutil.copytree(artifact.directory, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["../mine.py"] = {"size": len(MINE), "sha256": ""}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"names `../mine.py`, a file outside of the directory"):
        load_artifact(copy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dependencies": {}, "answer": {"key": "../../etc"}}', "\xff"])
def test_an_index_entry_that_cannot_be_read_is_a_miss(project: Path, pool: Pool, h100: Target, text: str) -> None:
    compile_mine(project, pool, h100)
    for path in (pool.cache.root / "index").glob("*.json"):
        if str(project) in path.read_text():
            path.write_text(text, encoding="latin-1")
    assert not compile_mine(project, pool, h100).cached


def test_a_key_cannot_leave_the_artifacts(project: Path, pool: Pool, h100: Target) -> None:
    artifact = compile_mine(project, pool, h100).artifact
    assert artifact is not None
    shutil.copytree(artifact.directory, pool.cache.root / "elsewhere")
    assert load_artifact(pool.cache.root / "elsewhere").provenance == artifact.provenance
    assert pool.cache.find_artifact("../elsewhere") is None


def test_a_compile_that_fails_leaves_nothing_behind(project: Path, pool: Pool, h100: Target) -> None:
    (case,) = discover_cases(["mine.py"], pool=pool, directory=project)
    for _ in range(2):
        (result,) = compile_cases([case], [h100], pool=pool, variation=Variation(flags={"xla_no_such_option": True}))
        assert isinstance(result.error, CompileError)
        assert "case `mine` does not compile: " in str(result.error)
        assert "xla_no_such_option" in str(result.error)
        assert "JaxRuntimeError: " in result.error.log_tail
        assert "\n" not in str(result.error)
        assert not result.cached
    assert not [path for path in pool.cache.artifacts.iterdir() if path.name.startswith(".")]


def test_snapshots_of_passes_are_kept_on_request(project: Path, pool: Pool, h100: Target) -> None:
    (case,) = discover_cases(["mine.py"], pool=pool, directory=project)
    flags = {"xla_dump_hlo_pass_re": "fusion"}
    (result,) = compile_cases([case], [h100], pool=pool, variation=Variation(flags=flags))
    assert result.artifact is not None, result.error
    assert result.artifact.passes
    assert all(path.is_file() for path in result.artifact.passes)


SECONDS = 600.0
"""The longest time that anything here may take on a busy machine."""
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
from pathlib import Path
from ligerdiag.artifacts.cache import Cache
from ligerdiag.workers.pool import Pool
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.toolchains.gpu_targets import load_target
cache, directory, selector = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with Pool(cache=Cache(cache), jobs=1) as pool:
    cases = discover_cases([selector], pool=pool, directory=directory)
    print("compiling", flush=True)
    for result in compile_cases(cases, [load_target("h100")], pool=pool):
        print(result.case.id, result.cached, "jax" in sys.modules, "triton" in sys.modules)
"""


def run_script(cache: Path, directory: Path, selector: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(cache), str(directory), selector],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_a_warm_cache_needs_neither_worker_nor_jax(project: Path, pool: Pool, h100: Target) -> None:
    compile_mine(project, pool, h100)
    output, errors = run_script(pool.cache.root, project, "mine.py").communicate(timeout=SECONDS)
    assert output == "compiling\nmine True False False\n", errors


@pytest.mark.usefixtures("own_templates")
def test_ctrl_c_leaves_no_process_and_nothing_half_written(tmp_path: Path) -> None:
    process = run_script(tmp_path / "cache", PROGRAMS, "troubles.py::hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    workers = wait_for_children(process)
    assert len(workers) == 1
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert "KeyboardInterrupt" in errors
    assert not any(is_running(worker) for worker in workers)
    assert list((tmp_path / "cache" / "artifacts").iterdir()) == []
    assert not [path for path in (tmp_path / "cache" / "index").iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("own_templates")
def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    process = run_script(tmp_path / "cache", PROGRAMS, "troubles.py::hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    workers = wait_for_children(process)
    process.kill()
    process.communicate(timeout=SECONDS)
    end = time.monotonic() + SECONDS
    while any(is_running(worker) for worker in workers) and time.monotonic() < end:
        time.sleep(0.1)
    assert workers
    assert not any(is_running(worker) for worker in workers)


def test_the_remains_of_a_dead_process_are_removed_after_a_day(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, new = cache.allocate_scratch(), cache.allocate_scratch()
    for path in (old, new):
        path.mkdir()
    os.utime(old, (time.time() - 90_000,) * 2)
    Cache(tmp_path)
    assert not old.exists()
    assert new.exists()


def test_effects_half_written_by_a_dead_process_are_removed_and_a_living_one_s_are_not(tmp_path: Path) -> None:
    Cache(tmp_path)
    effects = tmp_path / EFFECTS
    effects.mkdir()
    (effects / ".aa-dead").write_text("{")
    (effects / "aa.json").write_text("{}")
    with (effects / ".aa-alive").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        Cache(tmp_path)
        assert {path.name for path in effects.iterdir()} == {".aa-alive", "aa.json"}
    Cache(tmp_path)
    assert {path.name for path in effects.iterdir()} == {"aa.json"}


def wait_for_children(process: subprocess.Popen[str]) -> list[int]:
    """Returns the process's workers once it has started one."""
    end = time.monotonic() + SECONDS
    while not (children := children_of(process.pid)) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.0)  # by then the worker is compiling, unless the machine is busy
    return children


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_folder_without_init_inside_a_package_is_imported_again_for_each_source(tmp_path: Path) -> None:
    folder = tmp_path / "package" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "package" / "__init__.py").touch()
    (folder / "helper.py").write_text(HELPER)
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(MINE.replace("import helper", "from package.inner import helper"))
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as single:
        for name in ("one", "two"):
            (case,) = discover_cases([f"package/inner/{name}.py"], pool=single, directory=tmp_path)
            assert case.id == "mine"


TWINS = (
    MINE.replace("CASE = Case", "CASES = [Case").rstrip()
    + ",\n    Case(name='twin', function=helper.f, args=(Arg(shape=(4,)),))]\n"
)


def compile_twins(folder: Path, cache: Path, target: Target, *order: str) -> dict[str, dict[str, bytes]]:
    """Returns the files of the two cases' artifacts, compiled one after the other, without measured values."""
    found: dict[str, dict[str, bytes]] = {}
    with Pool(cache=Cache(cache), jobs=1) as pool:
        cases = {case.id: case for case in discover_cases(["mine.py"], pool=pool, directory=folder)}
        for name in order:
            (result,) = compile_cases([cases[name]], [target], pool=pool)
            assert result.artifact is not None, result.error
            assert result.artifact.provenance.case_id == name
            files = {path.name: path.read_bytes() for path in result.artifact.directory.iterdir()}
            made = {key: value for key, value in json.loads(files["provenance.json"]).items() if "_seconds" not in key}
            found[name] = files | {"manifest.json": b"", "provenance.json": json.dumps(made).encode()}
    return found


def test_cases_with_the_same_program_have_artifacts_under_their_own_names_in_any_order(
    project: Path, h100: Target
) -> None:
    (project / "mine.py").write_text(TWINS)
    one = compile_twins(project, project / "one", h100, "mine", "twin")
    other = compile_twins(project, project / "other", h100, "twin", "mine")
    assert one == other
    assert one["mine"]["optimized.hlo.pb"] == one["twin"]["optimized.hlo.pb"]
    seconds = {
        json.loads(path.read_text())["compile_seconds"]
        for path in (project / "one").glob("artifacts/*/provenance.json")
    }
    assert len(seconds) == 1, "the program was compiled twice"
