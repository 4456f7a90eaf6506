"""Keeps templates for many runs, such as those of a sweep's workers on one machine or of a test suite. A template is a
process that has done the slow imports and forks workers (see `loop`).

`python -m ligerdiag.workers.template_server SOCKET` listens until its standard input closes. It starts a template when
the first request of a kind arrives. A run whose environment variable LIGERDIAG_TEMPLATES has the path of the socket
requests its workers there; the socket belongs in a folder that no other user may enter. A kind is an interpreter, a
module, and all environment variables except those that differ between workers (see `loop`).

A request is the one byte and the three descriptors that a template receives, followed by the kind. The new worker
answers, not the server. If no fork is possible, the server closes the descriptors, and the run starts a template of its
own. Of the templates without workers, the server keeps the most recently used.

A template of the server has many forks. So it also does, once, some work that each forked worker would otherwise repeat
(`_ALSO`), such as the imports of a replay worker. The templates of a single run do not: it would save them little, and a
case without a kernel would have to wait for imports that it does not need.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep

from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import FieldError, parse_object, read_str, read_str_map
from ligerdiag.workers.process import (
    ALSO_VARIABLE,
    FORK_DESCRIPTORS,
    FORK_REQUEST,
    WorkerDied,
    WorkerProcess,
    WorkerTimeout,
)
from ligerdiag.workers.templates import VARIABLE, TemplateKind, send_request, start_process

_START_SECONDS, _END_SECONDS = 60.0, 5.0
_ALSO = {
    "ligerdiag.compile.compile_worker": (
        "ligerdiag.replay.replay_worker",
        "ligerdiag.replay.runs.case_run",
        "ligerdiag.replay.runs.case_inputs",
        "ligerdiag.replay.runs.meanings",
        "ligerdiag.compile.cases.known_fields:build_first_topology",
        "ligerdiag.compile.cases.loader:note_own_modules",
    )
}
"""Maps the module of a template to the work that each of its forks would otherwise do itself, after the imports of that
module: modules to import, and functions to call, as `module:function`.
"""
MAXIMUM = 8
"""Number of templates that the server keeps: those that were used last. Any other template ends once it has no workers.
Each template takes about 200 MB, mostly shared with its forks.
"""


@dataclass(slots=True, eq=False)
class _Slot:
    """The server's record of one kind, made at the first request, before there is a template (process that forks
    workers). `control` is the server's end of the template's socket, None if there is no template that can fork.
    """

    lock: Lock = field(default_factory=Lock)
    is_tried: bool = False
    pid: int = 0
    control: socket.socket | None = None

    def has_workers(self) -> bool:
        """Returns whether the template has workers or is being started, and so must be kept."""
        if self.lock.locked():
            return True
        try:
            return bool(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii"))
        except OSError:
            return False


class _TemplateServer:
    def __init__(self, log: Path, maximum: int) -> None:
        self._log = log
        self._maximum = maximum
        self._lock = Lock()
        self._slots: dict[str, _Slot] = {}
        """The templates by the name of their kind, least recently used first."""

    def answer(self, connection: socket.socket) -> None:
        """Passes the descriptors of one request to a template of the requested kind. The server's own copies of the
        descriptors are closed afterwards, even if that fails.
        """
        descriptors: list[int] = []
        with connection:
            try:
                _, descriptors, _, _ = socket.recv_fds(connection, len(FORK_REQUEST), FORK_DESCRIPTORS)
                fields = parse_object(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
                environment = read_str_map(fields, "environment")
                kind = TemplateKind(
                    python=read_str(fields, "python"), module=read_str(fields, "module"), environment=environment
                )
                self._pass_on(kind, descriptors)
            except (OSError, FieldError, WorkerDied, WorkerTimeout):
                pass
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _pass_on(self, kind: TemplateKind, descriptors: list[int]) -> None:
        with self._lock:
            slot = self._slots.pop(kind.name, None) or _Slot()
            self._slots[kind.name] = slot
            self._forget_oldest()
        with slot.lock:
            if not slot.is_tried:
                slot.is_tried = True
                self._start(kind, slot)
            if slot.control is None:
                return
            try:
                send_request(slot.control, descriptors)
            except OSError:  # the template was killed; the next request starts another
                slot.is_tried, slot.control = False, None
                raise

    def _start(self, kind: TemplateKind, slot: _Slot) -> None:
        also = {ALSO_VARIABLE: ",".join(_ALSO.get(kind.module, ()))}
        process, control = start_process(replace(kind, environment={**kind.environment, **also}), self._log)
        worker = WorkerProcess(process, control)
        try:
            slot.pid, forks = worker.wait_until_ready()
        except BaseException:
            worker.close()
            raise
        if forks:
            slot.control = control
        else:
            worker.close()

    def close(self) -> None:
        """Ends the templates and waits for them. The operating system then counts their CPU time and memory as the
        server's.
        """
        with self._lock:
            for slot in self._slots.values():
                if slot.control is not None:
                    slot.control.close()
        until = monotonic() + _END_SECONDS
        with suppress(ChildProcessError):
            while monotonic() < until:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    sleep(0.01)

    def _forget_oldest(self) -> None:
        for name in list(self._slots)[: max(0, len(self._slots) - self._maximum)]:
            slot = self._slots[name]
            if slot.has_workers():
                continue
            del self._slots[name]
            if slot.control is not None:
                slot.control.close()  # the template ends


def serve(path: Path, maximum: int = MAXIMUM) -> None:
    """Forks a worker from a template for every request on the Unix socket `path`, until standard input closes.

    maximum: the most templates to keep.
    """
    keeper = _TemplateServer(path.with_suffix(".log"), maximum)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(64)
        Thread(target=_accept, args=(listener, keeper), daemon=True).start()
        with suppress(KeyboardInterrupt):
            sys.stdin.buffer.read()
        keeper.close()


def _accept(listener: socket.socket, keeper: _TemplateServer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            Thread(target=keeper.answer, args=(connection,), daemon=True).start()


@contextmanager
def keep_templates() -> Generator[None]:
    """Runs a template server inside the context. Its templates fork all workers that start meanwhile. Does nothing if a
    template server runs already.
    """
    if os.environ.get(VARIABLE):
        yield
        return
    folder = ScratchFolder("templates")
    try:
        path = folder.path / "templates"
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until = monotonic() + _START_SECONDS
            while not path.exists() and server.poll() is None and monotonic() < until:
                sleep(0.02)
            os.environ[VARIABLE] = str(path)
            yield
        finally:
            os.environ.pop(VARIABLE, None)
            assert server.stdin is not None
            server.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                server.wait(_START_SECONDS)
    finally:
        folder.remove()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *map(int, sys.argv[2:]))
