"""Worker side: a process with everything imported that forks a worker for each socket it is sent.

1. A fork copies one thread alone: a lock that another thread holds stays locked for ever. So a process forks only while
   it has one thread and JAX has no backend, whose threads and devices a copy could not use.
2. The parent sends one byte with three descriptors: the worker's socket, a pipe for how it ended, and its first log. On
   the socket waits a line with what the worker has for itself: its folder, and the variables that no import looks at. The
   worker says its process id, once it leads a session of its own; what it returned or was killed by goes to the pipe, as
   a line.
3. The template ends with its own parent, when the socket closes; its workers notice.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ligerdiag.compile.fields import parse_object, read_str, read_str_map
from ligerdiag.compile.worker_faults import CASE_PATH
from ligerdiag.compile.worker_process import FORK_DESCRIPTORS, FORK_REQUEST, MEMORY_VARIABLE, render_ready

_OWN = frozenset(
    {"TMPDIR", "COLUMNS", "LINES", "PWD", "OLDPWD", "SHLVL", "_", "LIGERDIAG_CACHE_DIR", "TRITON_CACHE_DIR", CASE_PATH}
    | {MEMORY_VARIABLE}
)
_OWN_PREFIXES = ("PYTEST_", "GITHUB_", "CI_")


def can_fork() -> bool:
    """Returns whether this process may be forked; see 1."""
    if not hasattr(os, "pidfd_open"):
        return False
    with suppress(OSError):
        os.close(os.pidfd_open(os.getpid()))
        return not _has_backend() and _becomes_single()
    return False


def _becomes_single() -> bool:
    """Returns whether there is one thread; one that was joined may take a moment to be gone."""
    for _ in range(50):
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        time.sleep(0.01)
    return False


def _has_backend() -> bool:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "_backends", True))


def serve_forks(control: socket.socket, work: Callable[[socket.socket], None]) -> None:
    """Forks a worker that does `work` for each request, until the control socket closes."""
    gc.collect()
    gc.freeze()  # the copies share what is never freed
    with selectors.DefaultSelector() as events:
        events.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fileobj is control:
                    request, descriptors, _, _ = socket.recv_fds(control, len(FORK_REQUEST), FORK_DESCRIPTORS)
                    if not request:
                        return
                    _fork(events, control, descriptors, work)
                else:
                    pidfd, (pid, status) = key.fd, key.data
                    events.unregister(pidfd)
                    os.close(pidfd)
                    _report(pid, status)


def _fork(
    events: selectors.BaseSelector,
    control: socket.socket,
    descriptors: list[int],
    work: Callable[[socket.socket], None],
) -> None:
    jobs, status, log = descriptors
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        for key in list(events.get_map().values()):
            if key.fileobj is not control:
                os.close(key.fd)
                os.close(key.data[1])
        events.close()
        control.close()
        os.close(status)
        _run_worker(jobs, log, work)
    os.close(jobs)
    os.close(log)
    events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _run_worker(jobs: int, log: int, work: Callable[[socket.socket], None]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        channel = socket.socket(fileno=jobs)
        _equip(channel)
        channel.sendall(render_ready(os.getpid(), forks=False))
        work(channel)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def is_own(name: str) -> bool:
    """Whether no import looks at the environment variable, so that each worker of a template may have its own."""
    return name in _OWN or name.startswith(_OWN_PREFIXES)


def render_equipment(environment: Mapping[str, str], folder: Path) -> bytes:
    """The line that waits on a new worker's socket; see 2. folder: its current one."""
    own = {name: value for name, value in environment.items() if is_own(name)}
    return (json.dumps({"own": own, "folder": str(folder)}) + "\n").encode()


def _equip(channel: socket.socket) -> None:
    line = b""
    while not line.endswith(b"\n"):
        block = channel.recv(1 << 16)
        if not block:
            raise SystemExit(1)  # whoever asked is gone
        line += block
    fields = parse_object(line)
    own = read_str_map(fields, "own")
    for name in [name for name in os.environ if is_own(name) and name not in own]:
        del os.environ[name]
    os.environ.update(own)
    os.chdir(read_str(fields, "folder"))
    tempfile.tempdir = None


def _report(pid: int, status: int) -> None:
    _, result = os.waitpid(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it has left running
    with suppress(OSError):
        os.write(status, f"{os.waitstatus_to_exitcode(result)}\n".encode())
    os.close(status)
