"""State that all processes of a test run share: one cache of compiled and computed results, and worker templates.

The cache outlives the run and also serves the next fresh clone. Entries are found by content, so that a change to a
program or to ligerdiag is a miss. Effects of kernels are the exception: their keys hold a version that people raise by
hand, so they are deleted after every change. The cache lies in the user's cache folder or where LIGERDIAG_TEST_CACHE
says. When it is a week old, it is rebuilt. While a run of other code uses it, a run takes the clone's own, in
.ligerdiag/.

A test of the cache, or of an empty cache, has its own cache. So does a test of a file whose path differs in each run. A
test of the start and end of workers takes `own_templates`.

Python writes its bytecode even if PYTHONDONTWRITEBYTECODE is set: a run starts hundreds of processes, and each one that
imports jax would otherwise spend two thirds of its time compiling the same sources. In a fresh clone one process
collects the tests first, because all processes of the run would compile the same sources side by side.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO

import platformdirs
import pytest

from ligerdiag.workers import template_server, templates
from tests import rotation

ROOT = Path(__file__).parents[1]
CACHE_VARIABLE = "LIGERDIAG_TEST_CACHE"
KEPT_SECONDS = 7 * 24 * 3600.0
START_SECONDS = 600.0
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
SET_BY_JAX = {"TPU_SKIP_MDS_QUERY": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
"""Environment variables that `import jax` sets. If they are set from the start, all processes of the run share their
templates.
"""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Threads of OpenBLAS wait for one another in a loop: if others hold the cores, a 2 ms product takes 200 ms."""
TEMPLATES = 12
"""How many templates are kept: three kinds of workers, each for the pinned versions, for a plain install, and for tests
that set variables.
"""


class SharedRun:
    """A plugin of the process that starts the run; its child processes inherit the variables."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ligerdiag-tests-"))
        self._server: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        """Held while the run uses the user's cache."""

    def start(self, *, has_all: bool) -> None:
        """Chooses the cache and starts the template server. has_all: whether this is a run of all tests."""
        os.environ.pop(NO_BYTECODE, None)
        sys.dont_write_bytecode = False
        for name, value in (SET_BY_JAX | ONE_THREAD).items():
            os.environ.setdefault(name, value)
        if has_all:
            os.environ[rotation.VARIABLE] = str(rotation.choose_turn(os.environ, ROOT))
        if CACHE_VARIABLE not in os.environ:
            os.environ[CACHE_VARIABLE] = str(self._choose_cache())
        path = self._folder / "templates"
        command = [sys.executable, "-m", template_server.__name__, str(path), str(TEMPLATES)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        os.environ[templates.VARIABLE] = str(path)
        end = time.monotonic() + START_SECONDS
        while not path.exists():
            assert self._server.poll() is None, "the server of templates does not start"
            assert time.monotonic() < end
            time.sleep(0.02)

    def collect_once(self, arguments: Sequence[str]) -> None:
        """Collects the tests in another process, which writes their bytecode, unless a test already has its own."""
        if next((ROOT / "tests").rglob("test_*-pytest-*.pyc"), None) is None:
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *arguments]
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)  # the run itself reports errors

    def _choose_cache(self) -> Path:
        """Returns the run's cache folder, and locks it so that no other run empties it meanwhile."""
        folder = platformdirs.user_cache_path("ligerdiag") / "tests"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("a+")
        cache, digest = folder / "cache", _compute_digest()
        code, made = cache / "code", cache / "made"
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not made.exists() or time.time() - made.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(cache, ignore_errors=True)
                cache.mkdir(mode=0o700)
                made.touch()
            if not code.exists() or code.read_text(encoding="ascii") != digest:
                shutil.rmtree(cache / "effects", ignore_errors=True)
                code.write_text(digest, encoding="ascii")
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        except BlockingIOError:  # another run holds the lock
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            if not code.exists() or code.read_text(encoding="ascii") != digest:
                self._lock.close()
                return ROOT / ".ligerdiag" / "test-cache" / digest
        return cache

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints which tests of a kind ran."""
        turn = rotation.current_turn()
        if turn is not None:
            repeats = f"{rotation.VARIABLE}={turn} repeats that"
            terminalreporter.write_line(f"turn {turn + 1} of {rotation.TURNS} of tests/rotation.py; {repeats}")

    def pytest_unconfigure(self) -> None:
        """Ends the templates."""
        if self._lock is not None:
            self._lock.close()
        os.environ.pop(templates.VARIABLE, None)
        if self._server is not None and self._server.stdin is not None:
            self._server.stdin.close()
            self._server.wait(START_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


def _compute_digest() -> str:
    """Returns the sha256 of ligerdiag's sources."""
    digest = sha256()
    for path in sorted((ROOT / "ligerdiag").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def shared_cache() -> Path:
    """Returns the cache of all tests and runs."""
    return Path(os.environ[CACHE_VARIABLE])


@pytest.fixture
def own_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the test's workers from templates of its own pool."""
    monkeypatch.delenv(templates.VARIABLE, raising=False)
