"""Parent side: one worker process, which answers one line for one line.

1. It runs in a session and process group of its own, so that Ctrl-C in the terminal reaches only the parent, and the
   parent can end the worker together with the processes that it started (ptxas, or processes that run a kernel's grid).
2. It is isolated: `-P`, no PYTHONPATH except what ligerdiag itself needs (see `toolchain`), and a folder of its own as
   current folder. Files in the user's current folder, such as a `pickle.py` in a dump, are never imported. The paths
   that a user's case needs are added when the case is imported (see `loader`).
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
"""Bytes of data that a worker may have; set by the pool."""
FRESH_VARIABLE = "LIGERDIAG_WORKER_FRESH"
"""Set where a worker must be a process of its own and no fork; set by the pool."""
START_SECONDS = 180.0
"""Longest that the imports of jax and triton may take."""
MAXIMUM_ANSWER_BYTES = 64 << 20
FORK_REQUEST = b"f"
FORK_DESCRIPTORS = 3


def render_ready(pid: int, *, forks: bool) -> bytes:
    """Returns the first line of a process: that it is ready, and whether it is a template."""
    return (json.dumps({"ready": pid, "forks": forks}) + "\n").encode()


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
        """Returns the exit code if it ended by itself; None if it was ended."""
        return self.status if self.status is not None and self.status >= 0 else None


class Process(Protocol):
    """The interface of a worker's process; a `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Of the leader of the worker's process group; 0 while it is not known."""
        ...

    def poll(self) -> int | None:
        """Returns how the process ended, as `Popen.returncode`; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the same; `subprocess.TimeoutExpired` when it does not come."""
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
        """Waits for the imports: (process id, whether it forks); WorkerDied or WorkerTimeout when they do not end."""
        line = self._read_line(START_SECONDS)
        try:
            fields = parse_object(line)
            return read_int(fields, "ready"), read_bool(fields, "forks")
        except FieldError as error:
            raise WorkerDied(f"began with `{line:.60}`") from error

    def ask(self, line: str, timeout: float) -> str:
        """Sends the line and returns the worker's; WorkerDied or WorkerTimeout instead."""
        self.channel.settimeout(timeout)
        try:
            self.channel.sendall(line.encode())
        except TimeoutError:  # a worker that does not take it
            raise WorkerTimeout(f"was ended after {timeout:g} s") from None
        except OSError as error:
            raise self._make_end() from error
        return self._read_line(timeout)

    def kill(self) -> None:
        """Ends the worker and all that it started."""
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
                raise WorkerDied("gave an answer without end")
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
    """code: as `Popen.returncode` has it."""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    if -code == signal.SIGKILL:
        return f"was killed by signal {-code} ({name}), perhaps out of memory"
    return f"was aborted by signal {-code} ({name})"
