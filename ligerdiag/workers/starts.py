"""Parent side: starts workers that nothing has touched before, isolated as `process` (2) says.

1. The first process does the slow imports, once, and is the template that forks every worker; see `loop`.
2. Where it says that it cannot be forked, it is the worker, and the next one is a process of its own again.
3. Where another process keeps templates for many runs, a fork of those is taken; see `shared_templates`.
"""

import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic

from ligerdiag.workers.loop import render_equipment
from ligerdiag.workers.process import WorkerDied, WorkerProcess, WorkerTimeout
from ligerdiag.workers.shared_templates import Kind, connect, send_request, start_process

_GONE = -signal.SIGKILL


class WorkerStarts:
    """Starts the workers of one pool; its methods may be called from several threads."""

    def __init__(self, python: str, module: str, environment: Mapping[str, str], log: Path) -> None:
        """module: the Python module that a worker runs. log: gets what the imports print."""
        self._kind = Kind(python=python, module=module, environment=dict(environment))
        self._log = log
        self._lock = Lock()
        self._template: _Template | None = None
        self._starting: WorkerProcess | None = None

    def start(self, log: Path) -> WorkerProcess:
        """Returns a worker that is ready; what it prints before its first job goes to `log`.

        Raises OSError where no process can be started, and what `WorkerProcess.wait_until_ready` raises.
        """
        shared = connect(self._kind)
        if shared is not None:
            with suppress(OSError, WorkerDied, WorkerTimeout):
                return _fork(shared, log, self._kind, is_shared=True)
        with self._lock:
            if self._template is not None:
                with suppress(OSError, WorkerDied):
                    return _fork(self._template.channel, log, self._kind)
                self._template.worker.close()  # it was ended from outside
                self._template = None
            process, channel = start_process(self._kind, self._log)
            worker = WorkerProcess(process, channel)
            self._starting = worker
            try:
                _, forks = worker.wait_until_ready()
            except BaseException:
                worker.close()
                raise
            finally:
                self._starting = None
            if not forks:
                return worker
            self._template = _Template(worker, channel)
            try:
                return _fork(channel, log, self._kind)
            except OSError as error:
                raise WorkerDied("was not forked: its template is gone") from error

    def kill(self) -> None:
        """Ends the template, also one that is still importing."""
        for worker in (self._starting, None if self._template is None else self._template.worker):
            if worker is not None:
                worker.kill()

    def close(self) -> None:
        """Ends the template and waits until it is gone."""
        self.kill()
        with self._lock:
            if self._template is not None:
                self._template.worker.close()
                self._template = None


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    worker: WorkerProcess
    channel: socket.socket


def _fork(control: socket.socket, log: Path, kind: Kind, *, is_shared: bool = False) -> WorkerProcess:
    """A copy of the template behind the socket; OSError or WorkerDied where there is none."""
    ours, theirs = socket.socketpair()
    status, their_status = os.pipe()
    process = ForkedProcess(status)
    worker = WorkerProcess(process, ours)
    try:
        ours.sendall(render_equipment(kind.environment, log.parent))
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
        """As in `Process`."""
        return self._code if self._code is not None else self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """As in `Process`."""
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
