"""What all processes of a run of tests share: one cache of what was compiled and computed, and templates of workers.

1. The cache outlives the run: what is in it is found by content, so a change of a program or of ligerdiag is a miss. Of
   kernels' effects, whose keys hold a version that people raise, none is kept after a change. It lies in .ligerdiag/ or
   where LIGERDIAG_TEST_CACHE says; when it is a week old, it is made anew.
2. A test that is about the cache, or about what happens where it is empty, has one of its own. So has a test of a file that
   lies somewhere else in each run.
3. A test that is about how workers begin and end takes `own_templates`.
4. Python writes its bytecode, also where PYTHONDONTWRITEBYTECODE is set: a run starts hundreds of processes, and of each one
   that imports jax two thirds of the time would go to compiling its sources once more.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import pytest

from ligerdiag.workers import shared_templates

ROOT = Path(__file__).parents[1]
CACHE_VARIABLE = "LIGERDIAG_TEST_CACHE"
KEPT_SECONDS = 7 * 24 * 3600.0
START_SECONDS = 600.0
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
SET_BY_JAX = {"TPU_SKIP_MDS_QUERY": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
"""What an import of jax puts into the environment: set from the start, all processes of the run share their templates."""
TEMPLATES = 12
"""That are kept: three kinds of workers, for what is pinned here, for a plain install, and for tests with variables."""


class SharedRun:
    """A plugin of the process that the run begins with; those that it starts inherit the variables."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ligerdiag-tests-"))
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Makes room for the cache and starts the server of templates."""
        os.environ.pop(NO_BYTECODE, None)
        sys.dont_write_bytecode = False
        for name, value in SET_BY_JAX.items():
            os.environ.setdefault(name, value)
        cache = Path(os.environ.setdefault(CACHE_VARIABLE, str(ROOT / ".ligerdiag" / "test-cache")))
        made, code = cache / "made", cache / "code"
        if not made.exists() or time.time() - made.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            made.touch()
        digest = _compute_digest()
        if not code.exists() or code.read_text(encoding="ascii") != digest:
            shutil.rmtree(cache / "effects", ignore_errors=True)
            code.write_text(digest, encoding="ascii")
        path = self._folder / "templates"
        command = [sys.executable, "-m", shared_templates.__name__, str(path), str(TEMPLATES)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        os.environ[shared_templates.VARIABLE] = str(path)
        end = time.monotonic() + START_SECONDS
        while not path.exists():
            assert self._server.poll() is None, "the server of templates does not start"
            assert time.monotonic() < end
            time.sleep(0.02)

    def pytest_unconfigure(self) -> None:
        """Ends the templates."""
        os.environ.pop(shared_templates.VARIABLE, None)
        if self._server is not None and self._server.stdin is not None:
            self._server.stdin.close()
            self._server.wait(START_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


def _compute_digest() -> str:
    """sha256 of ligerdiag."""
    digest = sha256()
    for path in sorted((ROOT / "ligerdiag").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def shared_cache() -> Path:
    """The cache of all tests and runs; see 1."""
    return Path(os.environ[CACHE_VARIABLE])


@pytest.fixture
def own_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the workers of a test come from templates of their own pool."""
    monkeypatch.delenv(shared_templates.VARIABLE)
