"""Parent side: starts workers that nothing has touched before, isolated as `process` (2) says.

1. The first process of a kind does the slow imports, once, and is the template that forks every worker; see `loop`.
2. Where it says that it cannot be forked, it is the worker, and the next one is a process of its own again.
3. The pools of one run may share their templates. A worker may run another module than its template: it imports the
   rest itself.
4. Where another process keeps templates for many runs, a fork of those is taken; see `shared_templates`.
"""

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Self

from ligerdiag.workers.loop import is_own, render_equipment
from ligerdiag.workers.process import (
    FORK_REQUEST,
    FRESH_VARIABLE,
    WorkerDied,
    WorkerProcess,
    WorkerTimeout,
)

VARIABLE = "LIGERDIAG_TEMPLATES"
"""Environment variable: path of the socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The properties that the workers of one template have in common."""

    python: str
    module: str
    """The module that the template runs."""
    environment: Mapping[str, str]

    @property
    def common(self) -> dict[str, str]:
        """Returns the environment without what each worker has for itself."""
        return {name: value for name, value in self.environment.items() if not is_own(name)}

    @property
    def name(self) -> str:
        """Returns the same text for equal kinds."""
        return json.dumps(asdict(replace(self, environment=self.common)), sort_keys=True)


def connect(kind: Kind) -> socket.socket | None:
    """A connection on which a fork of that kind can be asked for, see 3; None where nobody keeps templates for us."""
    path = os.environ.get(VARIABLE, "")
    if not path or FRESH_VARIABLE in kind.environment:
        return None
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def send_request(control: socket.socket, descriptors: list[int], kind: Kind | None = None) -> None:
    """Asks a template, or whoever keeps templates of every kind, for a fork."""
    socket.send_fds(control, [FORK_REQUEST], descriptors)
    if kind is not None:
        control.sendall(kind.name.encode())
        control.close()


def start_process(kind: Kind, log: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A new process of that kind and our end of its socket. log: gets what the imports print."""
    ours, theirs = socket.socketpair()
    with theirs, log.open("ab") as output:
        process = subprocess.Popen(
            [kind.python, "-P", "-m", kind.module],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=dict(kind.environment),
            cwd=log.parent,
            start_new_session=True,
        )
    return process, ours


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

    def start_worker(
        self, kind: Kind, module: str, log: Path, start_log: Path, is_wanted: Callable[[], bool] = lambda: True
    ) -> WorkerProcess:
        """Returns a worker that is ready and runs `module`, which need not be the template's.

        log: gets what it prints before its first job. start_log: gets what the imports of a template print. is_wanted:
        asked before slow imports begin, which another thread may have waited for in the meantime. Raises OSError where no
        process can be started, and what `WorkerProcess.wait_until_ready` raises.
        """
        shared = connect(kind)
        if shared is not None:
            with suppress(OSError, WorkerDied, WorkerTimeout):
                return _fork(shared, log, kind, module, is_shared=True)
        return self._find(kind).start_worker(kind, module, log, start_log, is_wanted)

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

    def start_worker(
        self, kind: Kind, module: str, log: Path, start_log: Path, is_wanted: Callable[[], bool]
    ) -> WorkerProcess:
        with self._lock:
            if self._template is not None:
                with suppress(OSError, WorkerDied):
                    return _fork(self._template.channel, log, kind, module)
                self._template.close()  # it was ended from outside
                self._template = None
            worker, forks = self._start(kind, start_log, is_wanted)
            if forks:
                self._template = worker
                try:
                    return _fork(worker.channel, log, kind, module)
                except OSError as error:
                    raise WorkerDied("was not forked: its template is gone") from error
            if module != kind.module:
                worker.close()
                worker, _ = self._start(
                    replace(kind, module=module, environment={**kind.environment, FRESH_VARIABLE: "1"}),
                    start_log,
                    is_wanted,
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

    def _start(self, kind: Kind, log: Path, is_wanted: Callable[[], bool]) -> tuple[WorkerProcess, bool]:
        if not is_wanted():
            raise WorkerDied("was not started: the workers were ended")
        worker = WorkerProcess(*start_process(kind, log))
        self._importing = worker
        if not is_wanted():  # whoever ended them may have come before there was anything to end
            worker.kill()
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
