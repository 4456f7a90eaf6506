"""A worker process as its parent sees it: sends one line, receives one line, and ends the process.

The worker runs in a session and process group of its own. So Ctrl-C in the terminal reaches only the parent, which can
end the worker together with the processes that it started, such as ptxas. The worker is isolated: it gets `-P`, only
the PYTHONPATH that ligerdiag itself needs (see `toolchain`), and a current folder of its own. So it never imports files
from the user's current folder, such as a `pickle.py` in a dump. The paths that a user's case needs are added when the
case is imported (see `compile.cases.loader`).

If XLA aborts, the worker dies, and this module notices that the channel is closed: `ask` raises WorkerDied with the
signal. `pool` raises a CompileError for this job, with the end of the worker's log; other jobs continue in other workers.
"""

import json
import os
import select
import signal
import socket
import subprocess
from contextlib import suppress
from time import monotonic
from typing import Protocol

from ligerdiag.codec import FieldError, parse_object, read_bool, read_int

MEMORY_VARIABLE = "LIGERDIAG_WORKER_MEMORY"
"""Environment variable, set by the pool: the bytes of data that a worker may have."""
FRESH_VARIABLE = "LIGERDIAG_WORKER_FRESH"
"""Environment variable, set by the pool where a worker must be a new process and no fork."""
START_SECONDS = 180.0
"""The most seconds that the imports of jax and triton may take."""
MAXIMUM_ANSWER_BYTES = 64 << 20
FORK_REQUEST = b"f"
FORK_DESCRIPTORS = 3


def render_ready(pid: int, *, forks: bool) -> bytes:
    """Returns the first line that a process sends once it is ready. forks: whether it is a template."""
    return (json.dumps({"ready": pid, "forks": forks}) + "\n").encode()


class WorkerTimeout(Exception):
    """The worker did not answer in time."""


class WorkerDied(Exception):
    """The worker ended instead of answering; the message says how, such as `was aborted by signal 6 (SIGABRT)`."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        """status: as `Popen.returncode`, negative for a signal; None if the process has not ended."""
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int | None:
        """The exit code if the process exited by itself; None if a signal ended it."""
        return self.status if self.status is not None and self.status >= 0 else None


class Process(Protocol):
    """The part of the interface of `subprocess.Popen` that a worker's process has."""

    @property
    def pid(self) -> int:
        """Process id of the leader of the worker's process group; 0 until the worker has reported it."""
        ...

    def poll(self) -> int | None:
        """Returns the status as `Popen.returncode`; None while the process runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the status. Raises `subprocess.TimeoutExpired`."""
        ...


class WorkerProcess:
    """A running worker. It belongs to one thread at a time, except for `kill`."""

    def __init__(self, process: Process, channel: socket.socket) -> None:
        self._process = process
        self.channel = channel
        self._buffer = b""

    @property
    def is_alive(self) -> bool:
        """Returns whether the process runs and has sent no unrequested output."""
        silent = not self._buffer and not select.select([self.channel], [], [], 0)[0]
        return silent and self._process.poll() is None

    def wait_until_ready(self) -> tuple[int, bool]:
        """Waits for the imports; returns (process id, whether it forks). Raises WorkerDied or WorkerTimeout."""
        line = self._read_line(START_SECONDS)
        try:
            fields = parse_object(line)
            return read_int(fields, "ready"), read_bool(fields, "forks")
        except FieldError as error:
            raise WorkerDied(f"began with `{line:.60}` instead of a message that it is ready") from error

    def ask(self, line: str, timeout: float) -> str:
        """Sends the line and returns the worker's line. Raises WorkerDied or WorkerTimeout."""
        self.channel.settimeout(timeout)
        try:
            self.channel.sendall(line.encode())
        except TimeoutError:  # the worker does not read
            raise WorkerTimeout(f"was ended after {timeout:g} s") from None
        except OSError as error:
            raise self._make_end() from error
        return self._read_line(timeout)

    def kill(self) -> None:
        """Ends the worker and all processes that it started."""
        if self._process.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the worker and waits until it is gone."""
        self.kill()
        with suppress(OSError):
            self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)

    def _read_line(self, timeout: float) -> str:
        end = monotonic() + timeout
        while b"\n" not in self._buffer:
            remaining = end - monotonic()
            if remaining <= 0 or not select.select([self.channel], [], [], remaining)[0]:
                raise WorkerTimeout(f"was ended after {timeout:g} s")
            try:
                block = self.channel.recv(1 << 16)
            except ConnectionError:
                block = b""
            if not block:
                raise self._make_end()
            self._buffer += block
            if len(self._buffer) > MAXIMUM_ANSWER_BYTES:
                raise WorkerDied(f"gave an answer of more than {MAXIMUM_ANSWER_BYTES} bytes")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def _make_end(self) -> WorkerDied:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return WorkerDied("closed its output")
        if code >= 0:
            return WorkerDied(f"ended with exit code {code}", status=code)
        return WorkerDied(_describe_signal(code), status=code)


def _describe_signal(code: int) -> str:
    """Returns how a signal ended the process: `killed` for SIGKILL, `aborted` for any other, also for a SIGSEGV.

    code: as `Popen.returncode`.
    """
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    if -code == signal.SIGKILL:
        return f"was killed by signal {-code} ({name}), perhaps out of memory"
    return f"was aborted by signal {-code} ({name})"
