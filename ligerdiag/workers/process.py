"""Represents a worker process in its parent: the parent sends it a line, receives a line, and ends the process.

The worker runs in a session and process group of its own. So Ctrl-C in the terminal reaches only the parent, which can
end the worker together with the processes that the worker started, such as ptxas. The worker is isolated: it gets
Python's option `-P`, only the PYTHONPATH that ligerdiag itself needs (see `toolchains.toolchain`), and a working directory
of its own. So it never imports files from the user's working directory, such as a `pickle.py` in a dump. The paths that a
user's case needs are added when the case is imported (see `compile.cases.loader`).

If XLA aborts, the worker dies, and this module notices that the channel is closed: `ask` raises WorkerDied with the
signal. `pool` raises a CompileError for this job, with the end of the worker's log; other jobs continue in other
workers.
"""

import json
import os
import signal
import socket
import subprocess
from contextlib import suppress
from multiprocessing.connection import wait
from time import monotonic
from typing import Protocol

from ligerdiag.codec import FieldError, parse_object, read_bool, read_int

MEMORY_VARIABLE = "LIGERDIAG_WORKER_MEMORY"
"""Name of the environment variable in which the pool passes a worker its limit on data, in bytes."""
FRESH_VARIABLE = "LIGERDIAG_WORKER_FRESH"
"""Name of the environment variable that the pool sets if a worker must be a new process and no fork."""
ALSO_VARIABLE = "LIGERDIAG_TEMPLATE_IMPORTS"
"""Name of the environment variable in which a template server passes a template further modules to import, and functions
to call as `module:function`, separated by commas.
"""
START_SECONDS = 180.0
"""The most seconds that a worker may take for its imports, such as jax and triton."""
MAXIMUM_ANSWER_BYTES = 64 << 20
FORK_REQUEST = b"f"
FORK_DESCRIPTORS = 3


def render_ready(pid: int, *, forks: bool) -> bytes:
    """Returns the line by which a new process reports that it is ready.

    pid: the process's id. forks: whether it is a template, a process from which workers are forked.
    """
    return (json.dumps({"ready": pid, "forks": forks}) + "\n").encode()


class WorkerTimeout(Exception):
    """A worker did not answer in time. The message says how many seconds it was given."""


class WorkerDied(Exception):
    """A worker ended instead of answering, could not be started, or sent a line that is not an answer. The message says
    which of these happened, such as `was aborted by signal 6 (SIGABRT)`.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        """status: how the process ended, as `Popen.returncode`: negative for a signal; None if it was never started, or
        had not ended when the exception was raised.
        """
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int | None:
        """Returns the exit code of a worker that ended by itself. Returns None if a signal ended it, or if it never
        started.
        """
        return self.status if self.status is not None and self.status >= 0 else None


class Process(Protocol):
    """The methods of `subprocess.Popen` that a worker's process has, even if it was forked."""

    @property
    def pid(self) -> int:
        """Returns the process id of the worker, which leads its process group. Returns 0 until the worker has reported
        it.
        """
        ...

    def poll(self) -> int | None:
        """Returns the exit status of the process, as `Popen.returncode`. Returns None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the process ends and returns its exit status, as `Popen.returncode`. Raises
        `subprocess.TimeoutExpired` if it still runs after `timeout` seconds.
        """
        ...


class WorkerProcess:
    """A running worker process, with the parent's end of its socket. Only one thread at a time may use it; any thread
    may call `kill`.
    """

    def __init__(self, process: Process, channel: socket.socket) -> None:
        self._process = process
        self.channel = channel
        self._buffer = b""

    @property
    def is_alive(self) -> bool:
        """Returns whether the worker can take a request. Its process must run and must have sent nothing since its last
        answer.
        """
        silent = not self._buffer and not wait([self.channel], 0)
        return silent and self._process.poll() is None

    def wait_until_ready(self) -> tuple[int, bool]:
        """Waits until the process has done its imports. Returns (process id, whether it is a template, which forks
        workers). Raises WorkerDied or WorkerTimeout if the process does not become ready.
        """
        line = self._read_line(START_SECONDS)
        try:
            fields = parse_object(line)
            return read_int(fields, "ready"), read_bool(fields, "forks")
        except FieldError as error:
            raise WorkerDied(f"sent `{line:.60}` first, instead of the message that it is ready") from error

    def hand_over(self) -> tuple[Process, socket.socket, bytes]:
        """Gives the process and the socket away, for a caller that exchanges other messages with the process. Returns
        the process, the parent's end of the socket, and the bytes that have arrived there. This object must not be used
        afterwards.
        """
        return self._process, self.channel, self._buffer

    def ask(self, line: str, timeout: float) -> str:
        """Sends the line to the worker and returns the line that it answers. Raises WorkerTimeout if there is no answer
        within `timeout` seconds, and WorkerDied if the worker ends.
        """
        self.channel.settimeout(timeout)
        try:
            self.channel.sendall(line.encode())
        except TimeoutError:  # the worker does not read
            raise WorkerTimeout(f"did not answer within {timeout:g} s and was ended") from None
        except OSError as error:
            raise self._make_end() from error
        return self._read_line(timeout)

    def kill(self) -> None:
        """Kills the worker and all processes that it started."""
        if self._process.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills the worker and all processes that it started, and waits until the worker is gone."""
        self.kill()
        with suppress(OSError):
            self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)

    def _read_line(self, timeout: float) -> str:
        end = monotonic() + timeout
        while b"\n" not in self._buffer:
            remaining = end - monotonic()
            if remaining <= 0 or not wait([self.channel], remaining):
                raise WorkerTimeout(f"did not answer within {timeout:g} s and was ended")
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
            return WorkerDied("closed its connection but did not end")
        if code >= 0:
            return WorkerDied(f"ended with exit code {code}", status=code)
        return WorkerDied(_describe_signal(code), status=code)


def _describe_signal(code: int) -> str:
    """Returns how a signal ended the process: `was killed` by SIGKILL, `was aborted` by any other signal, including
    SIGSEGV.

    code: the negative number of the signal, as in `Popen.returncode`.
    """
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    if -code == signal.SIGKILL:
        return f"was killed by signal {-code} ({name}), perhaps out of memory"
    return f"was aborted by signal {-code} ({name})"
