"""Implements the main loops of the two kinds of child process: workers and templates. A worker answers each job (a line of
JSON) with one line of JSON. A template has done the slow imports and forks workers.

Jobs and answers travel over the socket that was standard input at the start. Everything that the program, JAX or XLA
print during a job, including the message of an abort, goes to the job's log. A worker takes only the cases (functions
to check, with their arguments) of one source, that is, one file, module or live function (a function object of the
running program). It refuses the cases of any other source; the parent then asks another worker. A worker that dies
leaves no core file. A worker asks the operating system to kill the worker and not its parent if memory runs out. A
worker ends together with its parent (see `ending`), and the processes that it started, which share its process group,
end with it.

A template has done only its imports. It forks a worker whenever the parent asks for one, so no worker inherits side
effects of another worker's cases. A fork copies only the thread that forks, and a lock that another thread holds would
stay locked for ever. So a process forks only while it has one thread and JAX has no backend, whose threads and devices
a copy could not use. A process that cannot fork safely becomes a worker itself, and the parent starts another process
for the next worker.

To ask for a fork, the parent sends one byte with three descriptors: the worker's socket, a pipe for the exit code, and the
worker's first log. The parent has already written a line with the worker's own settings to the worker's socket: its folder,
the environment variables that may differ between workers because no import reads them, and the worker's module if the
template has another one (the `prepare` of the worker's module then does the remaining imports). The worker reports its
process id once it leads a session of its own. When the worker ends, the template writes the exit code to the pipe, as a
line. When the parent's socket closes, the template ends, and its workers notice.
"""

import gc
import importlib
import json
import os
import resource
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

from ligerdiag.codec import Json, parse_object, read_str, read_str_map
from ligerdiag.ending import die_with_parent, end_group_with_parent, watch_parent
from ligerdiag.errors import CASE_PATH, CompileError, LigerdiagError, UsedWorkerError
from ligerdiag.garbage import collect_rarely
from ligerdiag.model.case import SIZES
from ligerdiag.model.jobs import render_error, render_refusal
from ligerdiag.workers.given_process import GIVEN_VARIABLE
from ligerdiag.workers.process import (
    ALSO_VARIABLE,
    FORK_DESCRIPTORS,
    FORK_REQUEST,
    FRESH_VARIABLE,
    MEMORY_VARIABLE,
    render_ready,
)

_PER_WORKER = frozenset(
    {"TMPDIR", "COLUMNS", "LINES", "PWD", "OLDPWD", "SHLVL", "_", "LIGERDIAG_CACHE_DIR", "TRITON_CACHE_DIR", CASE_PATH}
    | {MEMORY_VARIABLE, SIZES, GIVEN_VARIABLE}
)
_PER_WORKER_PREFIXES = ("PYTEST_", "GITHUB_", "CI_")

type Answerer = Callable[[Json, Path], str]
"""A function from a job and the path of its log to the answer, one line of text. If the function raises a
LigerdiagError, the error becomes the answer.
"""
type Work = Callable[[socket.socket, Answerer | None], None]
"""A function that answers the jobs that arrive on a socket. It uses the given answerer; if that is None, it uses the
template's answerer.
"""


def can_fork() -> bool:
    """Returns whether this process can be forked safely. It must have only one thread, and JAX no backend."""
    if not hasattr(os, "pidfd_open"):
        return False
    with suppress(OSError):
        os.close(os.pidfd_open(os.getpid()))
        return not _has_backend() and _has_one_thread()
    return False


def _has_one_thread() -> bool:
    """Whether this process has only one thread. Waits for that up to a second, because a joined thread may take a
    moment to end.
    """
    for _ in range(100):
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        time.sleep(0.01)
    return False


def _has_backend() -> bool:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "_backends", True))


def serve_forks(control: socket.socket, work: Work) -> None:
    """Forks a worker that runs `work` for each request on the control socket, until the socket closes."""
    gc.collect()
    gc.freeze()  # forks share the memory of objects that are never freed
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
    work: Work,
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


def _run_worker(jobs: int, log: int, work: Work) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        channel = socket.socket(fileno=jobs)
        module = _apply_settings(channel)
        answer = importlib.import_module(module).prepare() if module else None
        channel.sendall(render_ready(os.getpid(), forks=False))
        work(channel, answer)
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


def is_per_worker(name: str) -> bool:
    """Returns whether workers that are forked from one template may have different values of this environment variable.
    They may if no import reads the variable, because the template has done the imports already.

    name: the variable's name.
    """
    return name in _PER_WORKER or name.startswith(_PER_WORKER_PREFIXES)


def render_settings(environment: Mapping[str, str], folder: Path, module: str = "") -> bytes:
    """Returns a line of JSON with the settings in which a new worker differs from its template. A template is the
    process from which the worker is forked. The parent writes the line to the worker's socket before it asks the
    template to fork.

    environment: the worker's environment variables; only those that may differ between workers are sent. folder: the
    worker's working directory. module: the module that the worker runs; empty if it is the module whose imports the
    template has done.
    """
    own = {name: value for name, value in environment.items() if is_per_worker(name)}
    return (json.dumps({"own": own, "folder": str(folder), "module": module}) + "\n").encode()


def _apply_settings(channel: socket.socket) -> str:
    """Reads this worker's own settings from the socket and applies them to the process. Returns the module that the
    worker runs; empty if it is the module whose imports the template has done.
    """
    line = b""
    while not line.endswith(b"\n"):
        block = channel.recv(1 << 16)
        if not block:
            raise SystemExit(1)  # the parent is gone
        line += block
    fields = parse_object(line)
    own = read_str_map(fields, "own")
    for name in [name for name in os.environ if is_per_worker(name) and name not in own]:
        del os.environ[name]
    os.environ.update(own)
    os.chdir(read_str(fields, "folder"))
    tempfile.tempdir = None
    return read_str(fields, "module")


def _report(pid: int, status: int) -> None:
    _, result = os.waitpid(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # the processes that it left running
    with suppress(OSError):
        os.write(status, f"{os.waitstatus_to_exitcode(result)}\n".encode())
    os.close(status)


OOM_SCORE = "800"


def serve(prepare: Callable[[], Answerer], *, starts_nothing: bool = False) -> None:
    """Runs the process of a worker or of a template that answers jobs, until its parent closes the socket.

    Calls `prepare`, which does the slow imports, and reports that the process is ready. Then a template forks a worker
    for each request, and a worker answers jobs. starts_nothing: whether no job starts a process.
    """
    answers = list[Answerer]()

    def work(jobs: socket.socket, other: Answerer | None) -> None:
        _answer_jobs(jobs, other or answers[0], starts_nothing=starts_nothing and other is None)

    serve_work(lambda: answers.append(prepare()), work)


def serve_work(prepare: Callable[[], None], work: Work) -> None:
    """Runs the process of a worker or of a template, until its parent closes the socket. First calls `prepare`, which
    does the slow imports. Then a worker runs `work`; a template forks a process that runs `work` for each request.
    """
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _prefer_for_oom()
    end_watch = watch_parent()
    gc.disable()  # imports make many objects and hardly any garbage
    prepare()
    _prepare_also(os.environ.pop(ALSO_VARIABLE, ""))
    collect_rarely()
    gc.enable()
    end_watch()
    forks = not os.environ.pop(FRESH_VARIABLE, "") and can_fork()
    channel.sendall(render_ready(os.getpid(), forks=forks))
    if forks:
        serve_forks(channel, work)
    else:
        work(channel, None)


def _prepare_also(steps: str) -> None:
    """Imports these modules, and calls the functions that are written as `module:function`; commas separate them. A module
    that cannot be imported is the trouble of the worker that needs it.
    """
    for step in filter(None, steps.split(",")):
        name, _, function = step.partition(":")
        with suppress(ImportError):
            module = importlib.import_module(name)
            if function:
                getattr(module, function)()


def _answer_jobs(channel: socket.socket, answer: Answerer, *, starts_nothing: bool) -> None:
    _limit_memory()
    if starts_nothing:
        die_with_parent(os.getppid())
    end_group_with_parent(channel.fileno())
    for line in channel.makefile(encoding="utf-8"):
        job = parse_object(line)
        log = Path(read_str(job, "log"))
        _redirect(log)
        try:
            text = answer(job, log)
        except UsedWorkerError:
            text = render_refusal()
        except LigerdiagError as error:
            text = render_error(error)
        except MemoryError:
            traceback.print_exc()
            text = render_error(CompileError("the worker ran out of memory"))
        sys.stdout.flush()
        sys.stderr.flush()
        channel.sendall(text.encode())


def _redirect(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def _prefer_for_oom() -> None:
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")


def _limit_memory() -> None:
    limit = os.environ.get(MEMORY_VARIABLE)
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
