"""Parent side: one worker process, which answers one line for one line.

1. It runs in a session and process group of its own, so that Ctrl-C in the terminal reaches the parent alone, and the
   parent can end the worker together with whatever it started (ptxas, or processes that run a kernel's grid).
2. It is isolated: `-P`, no PYTHONPATH but what ligerdiag itself needs (see `toolchain`), and a folder of its own as current
   folder. What lies where the user happens to stand, such as a `pickle.py` in a dump, is never imported. The paths that a
   user's case needs are added when that is imported (see `case_loader`).
"""

import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic

READY = '{"ready": true}\n'
MEMORY_VARIABLE = "LIGERDIAG_WORKER_MEMORY"
"""Bytes of data that a worker may have; set by the pool."""
START_SECONDS = 180.0
"""Longest that the imports of jax and triton may take."""
MAXIMUM_ANSWER_BYTES = 64 << 20


class WorkerTimeout(Exception):
    """The worker did not answer in time."""


class WorkerDied(Exception):
    """The worker ended instead of answering; the message says how, such as `was aborted by signal 6 (SIGABRT)`."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        """status: as `Popen.returncode` has it, negative for a signal; None where it has not ended."""
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int | None:
        """With which it ended of its own accord; None where it was ended."""
        return self.status if self.status is not None and self.status >= 0 else None


class WorkerProcess:
    """A running worker. It belongs to one thread at a time, except for `kill`."""

    def __init__(
        self, python: str, module: str, environment: Mapping[str, str], log: Path, *, folder: Path | None = None
    ) -> None:
        """Starts the worker that is the Python module `module`; its output before the first job goes to `log`.

        folder: where it starts, one that holds nothing of anybody else's; by default that of the log.
        """
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [python, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=dict(environment),
                cwd=folder or log.parent,
                start_new_session=True,
            )
        self._buffer = b""
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Waits for the imports; WorkerDied or WorkerTimeout when they do not come to an end."""
        if not self._is_ready:
            self._read_line(START_SECONDS)
            self._is_ready = True

    def ask(self, line: str, timeout: float) -> str:
        """Sends the line and returns the worker's; WorkerDied or WorkerTimeout instead."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise self._make_end() from error
        return self._read_line(timeout)

    def kill(self) -> None:
        """Ends the worker and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the worker and waits until it is gone."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read_line(self, timeout: float) -> str:
        assert self._process.stdout is not None
        file = self._process.stdout.fileno()
        end = monotonic() + timeout
        while b"\n" not in self._buffer:
            remaining = end - monotonic()
            if remaining <= 0 or not select.select([file], [], [], remaining)[0]:
                raise WorkerTimeout(f"was ended after {timeout:g} s")
            block = os.read(file, 1 << 16)
            if not block:
                raise self._make_end()
            self._buffer += block
            if len(self._buffer) > MAXIMUM_ANSWER_BYTES:
                raise WorkerDied("gave an answer without end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def _make_end(self) -> WorkerDied:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return WorkerDied("closed its output")
        if code >= 0:
            return WorkerDied(f"ended with exit code {code}", status=code)
        return WorkerDied(_describe_signal(code), status=code)


def _describe_signal(code: int) -> str:
    """code: as `Popen.returncode` has it."""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    if -code == signal.SIGKILL:
        return f"was killed by signal {-code} ({name}), perhaps out of memory"
    return f"was aborted by signal {-code} ({name})"
