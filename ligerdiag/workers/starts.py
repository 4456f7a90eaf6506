"""Parent side: starts workers that nothing has touched before, each isolated from the user's files.

1. The first process of a kind does the slow imports, once, and is the template that forks every worker; see `loop`.
2. Where it says that it cannot be forked, it is the worker, and the next one is a process of its own again.
3. The pools of one run may share their templates. A worker may run another module than its template: it imports the
   rest itself.
4. Where another process keeps templates for many runs, a fork of those is taken; see `shared_templates`.

One worker process answers one line for one line:

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
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Protocol, Self

from ligerdiag.codec import FieldError, parse_object, read_bool, read_int
from ligerdiag.workers.loop import render_equipment
from ligerdiag.workers.shared_templates import Kind, connect, send_request, start_process

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


_GONE = -signal.SIGKILL


class Templates:
    """The templates of a run, one for each kind; a context manager. Its methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._starts: dict[str, _Start] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(self, kind: Kind, module: str, log: Path, start_log: Path) -> WorkerProcess:
        """Returns a worker that is ready and runs `module`, which need not be the template's.

        log: gets what it prints before its first job. start_log: gets what the imports of a template print. Raises
        OSError where no process can be started, and what `WorkerProcess.wait_until_ready` raises.
        """
        shared = connect(kind)
        if shared is not None:
            with suppress(OSError, WorkerDied, WorkerTimeout):
                return _fork(shared, log, kind, module, is_shared=True)
        return self._find(kind).start_worker(kind, module, log, start_log)

    def kill_importing(self, kind: Kind) -> None:
        """Ends the template of that kind if it is still importing."""
        self._find(kind).kill_importing()

    def close(self) -> None:
        """Ends all templates, and waits until they are gone."""
        with self._lock:
            starts = list(self._starts.values())
        for start in starts:
            start.close()

    def _find(self, kind: Kind) -> "_Start":
        with self._lock:
            return self._starts.setdefault(kind.name, _Start())


class _Start:
    """Starts the workers of one kind."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._template: WorkerProcess | None = None
        self._importing: WorkerProcess | None = None

    def start_worker(self, kind: Kind, module: str, log: Path, start_log: Path) -> WorkerProcess:
        with self._lock:
            if self._template is not None:
                with suppress(OSError, WorkerDied):
                    return _fork(self._template.channel, log, kind, module)
                self._template.close()  # it was ended from outside
                self._template = None
            worker, forks = self._start(kind, start_log)
            if forks:
                self._template = worker
                try:
                    return _fork(worker.channel, log, kind, module)
                except OSError as error:
                    raise WorkerDied("was not forked: its template is gone") from error
            if module != kind.module:
                worker.close()
                worker, _ = self._start(
                    replace(kind, module=module, environment={**kind.environment, FRESH_VARIABLE: "1"}), start_log
                )
            return worker

    def kill_importing(self) -> None:
        if self._importing is not None:
            self._importing.kill()

    def close(self) -> None:
        self.kill_importing()
        with self._lock:
            if self._template is not None:
                self._template.close()
                self._template = None

    def _start(self, kind: Kind, log: Path) -> tuple[WorkerProcess, bool]:
        worker = WorkerProcess(*start_process(kind, log))
        self._importing = worker
        try:
            return worker, worker.wait_until_ready()[1]
        except BaseException:
            worker.close()
            raise
        finally:
            self._importing = None


def _fork(control: socket.socket, log: Path, kind: Kind, module: str, *, is_shared: bool = False) -> WorkerProcess:
    """A copy of the template behind the socket; OSError or WorkerDied where there is none."""
    ours, theirs = socket.socketpair()
    status, their_status = os.pipe()
    process = ForkedProcess(status)
    worker = WorkerProcess(process, ours)
    try:
        ours.sendall(render_equipment(kind.environment, log.parent, "" if module == kind.module else module))
        with theirs, log.open("ab") as output:
            descriptors = [theirs.fileno(), their_status, output.fileno()]
            send_request(control, descriptors, kind if is_shared else None)
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(their_status)
    process.pid, _ = worker.wait_until_ready()
    return worker


class ForkedProcess:
    """A process that another one has forked, and whose end that one reports."""

    def __init__(self, status: int) -> None:
        """status: the descriptor that the report comes from; it is owned."""
        self.pid = 0
        self._status = status
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._code if self._code is not None else self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else monotonic() + timeout
        while self._code is None:
            self._read(None if end is None else max(0.0, end - monotonic()))
            if self._code is None and end is not None and monotonic() >= end:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return self._code

    def _read(self, timeout: float | None) -> int | None:
        """Reads the exit code. If the template itself died, the code is unknown; its workers are killed then."""
        if not select.select([self._status], [], [], timeout)[0]:
            return None
        text = os.read(self._status, 64)
        with suppress(ValueError):
            self._code = int(text)
        self._code = _GONE if self._code is None else self._code
        os.close(self._status)
        return self._code
