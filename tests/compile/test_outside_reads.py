"""An artifact in the cache is not used after something outside has changed that the user's code read: an environment
variable, a file or folder, the place of a module. One that depends on something that nobody can look up is not used at all.
"""

import importlib.metadata
import importlib.util
import json
import os
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.dependencies import compute_digest, drop_unseen, move_path
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.outside_reads import OUTSIDE_READS
from ligerdiag.workers.pool import Pool

PROGRAM = """
import json
import os
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ligerdiag import Arg, Case

FOLDER = Path(__file__).parent
ROWS = json.loads((FOLDER / "config.json").read_text())["rows"]


sys.path.append(str(FOLDER / "library.zip"))
import zipped

try:
    import fast_path
except ImportError:
    fast_path = None


def step(x):
    weights = np.load(FOLDER / "weights.npy")
    if os.environ.get("PROGRAM_IS_SAFE", "1") == "1":
        x = x + 1
    os.environ["PROGRAM_SETS"] = "1"
    assert os.getenv("PROGRAM_SETS")
    if (FOLDER / "note.txt").exists():
        x = x + 2
    exec((FOLDER / "constants.py").read_text())
    parts = [one.name for one in (FOLDER / "parts").iterdir()]
    os.environb.get(b"PROGRAM_BYTES")
    (FOLDER / "log.txt").write_text("traced")
    return jnp.sum(x * weights)


CASE = Case(name="reader", function=step, args=(Arg(shape=(ROWS, 2)),))
"""


def test_what_the_users_code_reads_is_part_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def is_cached() -> bool:
        with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
            cases = discover_cases(["program.py"], pool=pool, directory=tmp_path)
            (result,) = compile_cases(cases, [load_target("h100")], pool=pool)
        assert result.error is None
        return result.cached

    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "config.json").write_text(json.dumps({"rows": 4}))
    (tmp_path / "constants.py").write_text("K = 1")
    (tmp_path / "parts").mkdir()
    _write_archive(tmp_path / "library.zip", "A = 1")
    np.save(tmp_path / "weights.npy", np.ones(2, np.float32))
    assert not is_cached()
    assert is_cached()
    monkeypatch.setenv("PROGRAM_IS_SAFE", "0")
    assert not is_cached()
    assert is_cached()
    monkeypatch.setenv("PROGRAM_SETS", "2")  # the program sets it before it reads it
    monkeypatch.setenv("PROGRAM_DOES_NOT_READ", "2")
    (tmp_path / "log.txt").write_text("another")
    assert is_cached()
    (tmp_path / "config.json").write_text(json.dumps({"rows": 8}))
    assert not is_cached()
    np.save(tmp_path / "weights.npy", np.full(2, 3, np.float32))
    assert not is_cached()
    assert is_cached()
    (tmp_path / "note.txt").write_text("present")
    assert not is_cached()
    (tmp_path / "note.txt").write_text("present, with another text")
    assert is_cached()
    (tmp_path / "constants.py").write_text("K = 2")
    assert not is_cached()
    (tmp_path / "parts" / "one.txt").touch()
    assert not is_cached()
    monkeypatch.setenv("PROGRAM_BYTES", "1")
    assert not is_cached()
    assert is_cached()
    monkeypatch.delenv("PROGRAM_IS_SAFE")
    assert not is_cached()
    (tmp_path / "fast_path.py").touch()
    assert not is_cached()
    assert is_cached()
    _write_archive(tmp_path / "library.zip", "A = 2")
    assert not is_cached()


def _write_archive(file: Path, text: str) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("zipped.py", text)


STARTER = """
import subprocess

import jax.numpy as jnp

from ligerdiag import Arg, Case

print("imports")
subprocess.call(["true"])


def step(x):
    print("traces")
    subprocess.call(["true"])
    return jnp.sin(x)


CASE = Case(name="starter", function=step, args=(Arg(shape=(2,)),))
"""


@pytest.mark.nightly
def test_a_case_that_starts_a_program_is_compiled_each_time(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STARTER)
    printed: list[str] = []
    for _ in range(2):
        with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
            cases = discover_cases(
                ["program.py"], pool=pool, directory=tmp_path, on_printed=lambda _, text: printed.append(text)
            )
            (result,) = compile_cases(cases, [load_target("h100")], pool=pool)
        assert result.error is None
        assert not result.cached
        printed.append(result.printed)
    reason = "ligerdiag: not kept in the cache, because program.py:{} starts a program (subprocess.Popen)\n"
    assert printed == ["imports\n" + reason.format(9), "traces\n" + reason.format(14)] * 2


def _load(file: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"plugin_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def _try_import(name: str) -> None:
    with suppress(ImportError):
        importlib.import_module(name)


def _make_link(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _ask_version(name: str) -> None:
    with suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version(name)


def _walk(folder: Path) -> list[str]:
    return [name for _, _, names, _ in os.fwalk(folder) for name in names]


def _open_in(folder: Path, name: str) -> None:
    number = os.open(folder, os.O_RDONLY)
    os.close(os.open(name, os.O_RDONLY, dir_fd=number))
    os.close(number)


def _use_temporary_folder() -> None:
    with tempfile.TemporaryDirectory() as name:
        inner = Path(name) / "inner"
        inner.mkdir()
        (inner / "out.txt").write_text("1")
        assert [one.stat().st_size for one in os.scandir(inner)] == [1]
        assert inner.exists()
        inner.stat()


def _read_through_link(file: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "link").symlink_to(file)
        (Path(name) / "link").read_text()


def _replace_output(here: Path) -> None:
    (here / "draft.txt").write_text("1")
    os.replace(here / "draft.txt", here / "out.txt")
    (here / "out.txt").read_text()


def _list_opened(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    os.listdir(number)
    os.close(number)


def _read_in_threads(files: list[Path]) -> None:
    with ThreadPoolExecutor(1) as executor:
        list(executor.map(Path.read_text, files))


type Step = Callable[[Path], object]
LATER = (2_000_000_000, 2_000_000_000)
NOTICED: dict[str, tuple[Step, Step]] = {
    "a module that appears": (lambda here: _try_import("absent_a"), lambda here: _write(here / "absent_a.py", "")),
    "a package that appears": (
        lambda here: _try_import("absent_b"),
        lambda here: _write(here / "absent_b/__init__.py", ""),
    ),
    "a folder that appears": (lambda here: _try_import("absent_c"), lambda here: (here / "absent_c").mkdir()),
    "find_spec": (lambda here: importlib.util.find_spec("absent_d"), lambda here: _write(here / "absent_d.py", "")),
    "a submodule": (
        lambda here: _try_import("reads_package.absent"),
        lambda here: _write(here / "reads_package/absent.py", ""),
    ),
    "an earlier folder": (
        lambda here: importlib.import_module("reads_settings"),
        lambda here: _write(here / "over/reads_settings.py", ""),
    ),
    "a package before a module": (
        lambda here: importlib.import_module("reads_module"),
        lambda here: _write(here / "reads_module/__init__.py", ""),
    ),
    "a distribution": (
        lambda here: _ask_version("reads-dist"),
        lambda here: _write(here / "reads_dist-1.dist-info/METADATA", "Name: reads-dist\nVersion: 1\n"),
    ),
    "all distributions": (
        lambda here: list(importlib.metadata.distributions()),
        lambda here: _write(here / "other_dist-1.dist-info/METADATA", "Name: other-dist\nVersion: 1\n"),
    ),
    "a loaded file": (lambda here: _load(here / "data.py"), lambda here: _write(here / "data.py", "A = 2")),
    "a module through a link": (
        lambda here: importlib.import_module("reads_link.inner"),
        lambda here: _make_link(here / "reads_link", "second"),
    ),
    "access": (lambda here: os.access(here / "absent", os.R_OK), lambda here: _write(here / "absent", "")),
    "lexists": (lambda here: os.path.lexists(here / "absent"), lambda here: _make_link(here / "absent", "nowhere")),
    "isfile": (lambda here: os.path.isfile(here / "absent"), lambda here: (here / "absent").mkdir()),
    "readlink": (lambda here: os.readlink(here / "link"), lambda here: _make_link(here / "link", "other.txt")),
    "is_symlink": (
        lambda here: (here / "data.py").is_symlink(),
        lambda here: _make_link(here / "data.py", "other.txt"),
    ),
    "realpath": (lambda here: os.path.realpath(here / "link"), lambda here: _make_link(here / "link", "other.txt")),
    "resolve": (lambda here: (here / "link").resolve(), lambda here: _make_link(here / "link", "other.txt")),
    "getsize": (lambda here: os.path.getsize(here / "data.py"), lambda here: _write(here / "data.py", "longer")),
    "Path.stat": (lambda here: (here / "data.py").stat(), lambda here: _write(here / "data.py", "longer")),
    "lstat": (lambda here: os.lstat(path=here / "data.py"), lambda here: _write(here / "data.py", "longer")),
    "getmtime": (lambda here: os.path.getmtime(here / "data.py"), lambda here: os.utime(here / "data.py", LATER)),
    "mode": (lambda here: os.stat(here / "data.py").st_mode, lambda here: (here / "data.py").chmod(0o700)),
    "scandir": (lambda here: [one.stat() for one in os.scandir(here)], lambda here: _write(here / "data.py", "longer")),
    "fwalk": (lambda here: _walk(here / "first"), lambda here: _write(here / "first/new.txt", "")),
    "listdir of a descriptor": (
        lambda here: _list_opened(here / "first"),
        lambda here: _write(here / "first/new.txt", ""),
    ),
    "open in a folder": (
        lambda here: _open_in(here / "first", "inner.py"),
        lambda here: _write(here / "first/inner.py", "2"),
    ),
    "a link in a temporary folder": (
        lambda here: _read_through_link(here / "data.py"),
        lambda here: _write(here / "data.py", "A = 2"),
    ),
    "a library's function in a thread": (
        lambda here: _read_in_threads([here / "data.py"]),
        lambda here: _write(here / "data.py", "A = 2"),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder of small files, the current one and the second on the import path."""
    for name in ("data.py", "reads_settings.py", "reads_module.py", "reads_package/__init__.py", "other.txt"):
        _write(tmp_path / name, "A = 1")
    for name in ("first/inner.py", "second/inner.py"):
        _write(tmp_path / name, f"NAME = '{name}'")
    _make_link(tmp_path / "link", "data.py")
    _make_link(tmp_path / "reads_link", "first")
    (tmp_path / "over").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "over"), str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.startswith("reads_")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    OUTSIDE_READS.install()
    OUTSIDE_READS.forget()
    return tmp_path


def _list_changed() -> list[str]:
    return [name for name, digest in OUTSIDE_READS.get_digests().items() if compute_digest(name) != digest]


@pytest.mark.parametrize("question", NOTICED)
def test_a_change_is_noticed(question: str, here: Path) -> None:
    ask, change = NOTICED[question]
    ask(here)
    assert not _list_changed()
    change(here)
    assert _list_changed()


UNNOTICED: dict[str, tuple[Step, Step]] = {
    "exists": (lambda here: (here / "data.py").exists(), lambda here: _write(here / "data.py", "longer")),
    "isfile": (lambda here: os.path.isfile(here / "data.py"), lambda here: os.utime(here / "data.py", LATER)),
    "a found module": (
        lambda here: importlib.import_module("reads_settings"),
        lambda here: _write(here / "reads_settings/note.txt", ""),
    ),
    "an output beside the module": (lambda here: _try_import("absent_e"), lambda here: _write(here / "log.txt", "")),
    "an output beside a distribution": (lambda here: _ask_version("numpy"), lambda here: _write(here / "log.txt", "")),
    "a temporary folder": (lambda here: _use_temporary_folder(), lambda here: None),
    "an output that is renamed": (_replace_output, lambda here: _write(here / "out.txt", "longer")),
    "realpath": (lambda here: os.path.realpath(here / "data.py"), lambda here: _write(here / "data.py", "longer")),
    "what a library looks for": (
        lambda here: _run_as("some_library", "try:\n    import absent_f\nexcept ImportError:\n    pass"),
        lambda here: _write(here / "absent_f.py", ""),
    ),
}


def _run_as(package: str, text: str) -> None:
    """Runs the text as code of an installed package."""
    file = f"{sysconfig.get_path('purelib')}/{package}/made_up.py"
    exec(compile(text, file, "exec"), {"__name__": f"{package}.made_up"})


@pytest.mark.parametrize("question", UNNOTICED)
def test_another_change_does_not_count(question: str, here: Path) -> None:
    ask, change = UNNOTICED[question]
    ask(here)
    change(here)
    assert not _list_changed()


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _connect() -> None:
    with closing(socket.socket()) as own, suppress(OSError):
        own.connect(("127.0.0.1", 9))


def _open_database() -> None:
    sqlite3.connect("some.db").close()


UNSEEN: dict[str, tuple[Callable[[], object], str]] = {
    "run": (lambda: subprocess.call(["true"]), "starts a program"),
    "system": (lambda: os.system("true"), "starts a program"),
    "posix_spawn": (lambda: os.posix_spawn("/bin/true", ["true"], {}), "starts a program"),
    "fork": (_fork, "forks a process"),
    "database": (_open_database, "opens a database"),
    "connection": (_connect, "opens a connection"),
    "a library's function": (lambda: _run_as("some_library", "import subprocess; subprocess.run('true')"), "a program"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_an_answer_that_nobody_can_look_up_again_is_not_used(
    name: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    act, word = UNSEEN[name]
    act()
    (note,) = OUTSIDE_READS.get_notes()
    assert "test_outside_reads.py:" in note
    assert word in note
    assert note in capfd.readouterr().err
    cache, question = Cache(here / "cache"), {"question": "a test"}
    dependencies = OUTSIDE_READS.get_digests()
    cache.keep_answer(question, dependencies, {"a": 1})
    assert cache.find_answer(question) is None
    assert cache.find_dependencies(question) == dependencies
    assert _list_changed() == [one for one in dependencies if one not in drop_unseen(dependencies)]


@pytest.mark.parametrize(
    "act",
    [
        lambda: sqlite3.connect(":memory:").close(),
        lambda: _run_as("triton", "import subprocess; subprocess.run('true')"),
        lambda: _try_import("reads_starter"),
        lambda: None,
    ],
)
def test_what_tools_and_imports_of_libraries_start_does_not_count(
    act: Callable[[], object], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = here / "site-packages"
    monkeypatch.setattr(sys, "path", [str(library), *sys.path])
    _write(library / "reads_starter.py", "import subprocess\nsubprocess.run('true')")
    act()
    assert not OUTSIDE_READS.get_notes()


def test_records_can_end(here: Path) -> None:
    def list_watched() -> list[object]:
        mapping = type(os.environ)
        names = ("__iter__", "__len__", "__getitem__", "__setitem__", "__delitem__")
        functions = (os.stat, os.lstat, os.access, os.readlink, os.open, os.fstat, os.path.realpath)
        return [*functions, *(getattr(mapping, name) for name in names), tuple(sys.meta_path)]

    installed = list_watched()
    OUTSIDE_READS.uninstall()
    bare = list_watched()
    assert not [one for one, other in zip(bare, installed, strict=True) if one is other]
    (here / "data.py").read_text()
    assert os.environ.get("READS_NOTHING") is None
    assert not OUTSIDE_READS.get_digests()
    OUTSIDE_READS.install()
    (here / "data.py").read_text()
    assert _list_changed() == []
    assert [one for one in OUTSIDE_READS.get_digests() if one.endswith("data.py")]
    os.access = theirs = lambda *_: True  # what somebody else has put there stays
    try:
        OUTSIDE_READS.uninstall()
        assert os.access is theirs
    finally:
        os.access = bare[2]  # type: ignore[assignment]


def test_what_is_in_a_made_folder_is_no_read_through_a_link_either(here: Path) -> None:
    (here / "other").mkdir()
    OUTSIDE_READS.uninstall()
    os.symlink(here / "other", here / "linked")
    OUTSIDE_READS.install()
    (here / "linked" / "made").mkdir()
    (here / "linked" / "made" / "inner.txt").write_text("a")
    (here / "other" / "made" / "later.txt").write_text("b")
    OUTSIDE_READS._own.clear()  # type: ignore[attr-defined]
    assert (here / "other" / "made" / "inner.txt").read_text() == "a"
    assert (here / "linked" / "made" / "later.txt").read_text() == "b"
    assert not [one for one in OUTSIDE_READS.get_digests() if "made" in one]


def test_a_new_interpreter_of_multiprocessing_is_seen(here: Path) -> None:
    code = "class parent:\n    pass\ndef launch():\n    import os\n    open(os.open(os.devnull, os.O_WRONLY), 'w').close()\n"
    file = f"{sysconfig.get_path('stdlib')}/multiprocessing/popen_spawn_posix.py"
    names: dict[str, object] = {"__name__": "multiprocessing.popen_spawn_posix"}
    exec(compile(code, file, "exec"), names)
    names["launch"]()  # type: ignore[operator]
    assert any("starts a process" in note for note in OUTSIDE_READS.get_notes())


def test_a_searched_path_moves_with_the_project() -> None:
    installed = sysconfig.get_path("purelib")
    name = f"import:fast\n/project/a\n{installed}"
    moved = move_path(name, lambda path: os.path.relpath(path, "/project"))
    assert moved == f"import:fast\na\n{installed}"
    assert move_path(moved, lambda path: os.path.normpath(os.path.join("/project", path))) == name
