"""A user's own case, its artifact from `check`, and a folder that somebody else filled."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MODULES = (
    "multiprocessing/__init__.py",
    "concurrent/__init__.py",
    "pickle.py",
    "signal.py",
    "threading.py",
    "json.py",
    "random.py",
    "struct.py",
    "subprocess.py",
    "numpy/__init__.py",
    "jax/__init__.py",
    "jaxlib/__init__.py",
    "triton/__init__.py",
    "ligerdiag/__init__.py",
)
SCRIPT = "from ligerdiag.cli.main import main\nmain()\n"
"""Like the installed script: the script's folder is the first entry of sys.path, not the current one."""

type Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a substitute for the installed script, the project `mine` with one case, and a cache."""
    folder = tmp_path_factory.mktemp("workplace")
    (folder / "bin").mkdir()
    (folder / "bin" / "run_ligerdiag.py").write_text(SCRIPT)
    (folder / "mine").mkdir()
    (folder / "mine" / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    shutil.copy(Path(__file__).with_name("mine.py"), folder / "mine" / "mine.py")
    return folder


@pytest.fixture(scope="session")
def run(workplace: Path) -> Run:
    """Runs `ligerdiag` with these arguments in a separate process; `cache` names the cache, other keywords are
    variables.
    """

    def start(
        *words: str | Path, cwd: Path, cache: str = "cache", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        settled = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GITHUB_ACTIONS")}
        settled |= {"LIGERDIAG_CACHE_DIR": str(workplace / cache), **environment}
        command = [sys.executable, str(workplace / "bin" / "run_ligerdiag.py"), *map(str, words)]
        return subprocess.run(command, cwd=cwd, env=settled, capture_output=True, text=True, check=False, timeout=600)

    return start


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with modules that write their name to `markers`, beside the folder, when somebody imports them."""
    folder = tmp_path_factory.mktemp("hostile") / "folder"
    markers = folder.parent / "markers"
    markers.mkdir()
    for module in MODULES:
        file = folder / module
        file.parent.mkdir(parents=True, exist_ok=True)
        name = module.replace("/", "_")
        file.write_text(f"open({str(markers / name)!r}, 'w').close()\nraise ImportError({name!r})\n")
    return folder


@pytest.fixture
def markers(hostile: Path) -> Path:
    """The folder where a module of `hostile` leaves a file when it is imported; empty before each test."""
    folder = hostile.parent / "markers"
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def artifact(workplace: Path, run: Run) -> Path:
    """The artifact of the case, compiled in its own project."""
    done = run("check", "mine.py", "--no-replay", cwd=workplace / "mine")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    (found,) = (workplace / "cache" / "artifacts").iterdir()
    return found
