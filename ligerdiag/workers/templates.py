"""Manages the templates of a run: processes that have done the slow imports once and fork every worker (see `loop`).

The first process of a kind (an interpreter, a module and an environment) becomes the kind's template. If this process
reports that it cannot fork, it is used as a worker itself, and the next worker is a new process again. The pools of one
run may share their templates. A worker may run another module than its template; the worker then does the remaining
imports itself. If LIGERDIAG_TEMPLATES names a socket, workers are forked from the templates that another process keeps
for many runs (see `template_server`).
"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Self

from ligerdiag.workers.loop import is_per_worker, render_settings
from ligerdiag.workers.process import (
    FORK_REQUEST,
    FRESH_VARIABLE,
    WorkerDied,
    WorkerProcess,
    WorkerTimeout,
)

VARIABLE = "LIGERDIAG_TEMPLATES"
"""Name of the environment variable that has the path of a template server's socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateKind:
    """The interpreter, module and environment of a template. A template is a process that has done the slow imports and
    forks workers.
    """

    python: str
    module: str
    """The module that the template runs, such as `ligerdiag.compile.compile_worker`."""
    environment: Mapping[str, str]

    @property
    def common(self) -> dict[str, str]:
        """Returns the environment without the variables that may differ between the workers of one template."""
        return {name: value for name, value in self.environment.items() if not is_per_worker(name)}

    @property
    def name(self) -> str:
        """Returns a text that identifies the kind. Equal kinds have equal texts."""
        return json.dumps(asdict(replace(self, environment=self.common)), sort_keys=True)


def connect(kind: TemplateKind) -> socket.socket | None:
    """Returns a connection to the template server. Returns None if there is no server, or if workers of this kind must
    not be forked.
    """
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


def send_request(control: socket.socket, descriptors: list[int], kind: TemplateKind | None = None) -> None:
    """Asks the process at the other end of `control` to fork a worker. Without `kind`, this process is a template,
    which forks. With `kind`, it is a template server, which passes the request to its template of that kind.

    descriptors: the new worker's socket, the pipe for its exit code, and its first log.
    """
    socket.send_fds(control, [FORK_REQUEST], descriptors)
    if kind is not None:
        control.sendall(kind.name.encode())
        control.close()


def start_process(kind: TemplateKind, log: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a process that does the imports of `kind.module`. It becomes a worker, or a template from which workers
    are forked. Returns the process and the parent's end of its socket.

    log: the file that receives the output of the process during its imports.
    """
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


def fork_from_server(kind: TemplateKind, module: str, log: Path) -> WorkerProcess | None:
    """Has the template server fork a worker, and returns the worker when it is ready. Returns None if there is no
    server, or if the server cannot fork a worker of this kind.

    module: the module that the worker runs. log: the file that receives the output of the worker, in the worker's
    folder.
    """
    shared = connect(kind)
    if shared is not None:
        with suppress(OSError, WorkerDied, WorkerTimeout):
            return _fork(shared, log, kind, module, is_shared=True)
    return None


_GONE = -signal.SIGKILL


class Templates:
    """The templates of a run, one for each kind. Several threads may use this context manager."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._starters: dict[str, _WorkerStarter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(
        self, kind: TemplateKind, module: str, log: Path, start_log: Path, is_wanted: Callable[[], bool] = lambda: True
    ) -> WorkerProcess:
        """Forks a worker from the template for `kind`, and returns it when it is ready. Starts the template first if
        necessary.

        module: the module that the worker runs; it need not be `kind.module`, whose imports the template has done. log:
        the file that receives the output of the worker before its first job. start_log: the file that receives the
        output of a template during its imports. is_wanted: asked before slow imports begin, because the pool may have
        closed while this thread waited. Raises OSError if no process can be started, and the exceptions of
        `WorkerProcess.wait_until_ready`.
        """
        forked = fork_from_server(kind, module, log)
        return forked or self._find(kind).start_worker(kind, module, log, start_log, is_wanted)

    def kill_importing(self, kind: TemplateKind) -> None:
        """Kills the template for `kind` if it has not finished its imports."""
        self._find(kind).kill_importing()

    def close(self) -> None:
        """Ends all templates and waits until they are gone."""
        with self._lock:
            starts = list(self._starters.values())
        for start in starts:
            start.close()

    def _find(self, kind: TemplateKind) -> "_WorkerStarter":
        with self._lock:
            return self._starters.setdefault(kind.name, _WorkerStarter())


class _WorkerStarter:
    """Starts the workers of one kind, and keeps their template."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._template: WorkerProcess | None = None
        self._importing: WorkerProcess | None = None
        self._failure: WorkerDied | None = None
        """How the imports ended the first process by themselves: they would end each further one, too."""

    def start_worker(
        self, kind: TemplateKind, module: str, log: Path, start_log: Path, is_wanted: Callable[[], bool]
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
                    raise WorkerDied("was not started: the process that forks workers has ended") from error
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

    def _start(self, kind: TemplateKind, log: Path, is_wanted: Callable[[], bool]) -> tuple[WorkerProcess, bool]:
        if not is_wanted():
            raise WorkerDied("was not started: the pool of workers is closed")
        if self._failure is not None:
            raise WorkerDied(str(self._failure), status=self._failure.status)
        worker = WorkerProcess(*start_process(kind, log))
        self._importing = worker
        if not is_wanted():  # the pool may have closed before there was a process to end
            worker.kill()
        try:
            return worker, worker.wait_until_ready()[1]
        except BaseException as end:
            worker.close()
            if isinstance(end, WorkerDied) and end.exit_code is not None:
                self._failure = end
            raise
        finally:
            self._importing = None


def _fork(
    control: socket.socket, log: Path, kind: TemplateKind, module: str, *, is_shared: bool = False
) -> WorkerProcess:
    """Returns a new worker, forked by the template at the other end of the socket. Raises OSError or WorkerDied if the
    template is gone.

    is_shared: whether the process at the other end is a template server.
    """
    ours, theirs = socket.socketpair()
    status, their_status = os.pipe()
    process = ForkedProcess(status)
    worker = WorkerProcess(process, ours)
    try:
        ours.sendall(render_settings(kind.environment, log.parent, "" if module == kind.module else module))
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
    """A worker that a template has forked. The template reports the worker's exit code through a pipe."""

    def __init__(self, status: int) -> None:
        """status: descriptor of the pipe through which the exit code arrives; this object closes it."""
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
        """Waits for the exit code up to `timeout` seconds and returns it; None if the worker still runs. If the
        template itself died, returns the code of a SIGKILL, because a template's workers are killed with it.
        """
        if not wait([self._status], timeout):
            return None
        text = os.read(self._status, 64)
        with suppress(ValueError):
            self._code = int(text)
        self._code = _GONE if self._code is None else self._code
        os.close(self._status)
        return self._code
