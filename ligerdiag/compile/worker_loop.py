"""Worker side: takes one job per line and answers each with one line, in workers of every kind.

1. Jobs and answers go over the socket that was standard input at the start. All output of the program, JAX or XLA
   during a job, up to the message of an abort, goes to the job's log.
2. When memory runs out, the operating system is asked to kill the worker and not its parent.
3. A worker ends with its parent (see `parent_process`). The processes that it started are in its process group and end
   with it.
4. A worker that dies leaves no core file.
5. A process that has only done its imports is a template: it forks a worker whenever the parent asks for one, so that
   no worker inherits side effects of another one's cases; see `worker_template`. If a fork is not safe, the process is
   a worker itself, and the parent starts another process for the next one.
6. A worker takes the cases of one source only. It refuses any other: the parent then asks another worker.
"""

import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ligerdiag.compile.fields import Json, parse_object, read_str
from ligerdiag.compile.job import render_error, render_refusal
from ligerdiag.compile.parent_process import die_with_parent, end_group_with_parent, watch_parent
from ligerdiag.compile.worker_process import FRESH_VARIABLE, MEMORY_VARIABLE, render_ready
from ligerdiag.compile.worker_template import can_fork, serve_forks
from ligerdiag.errors import CompileError, LigerdiagError, UsedWorkerError

OOM_SCORE = "800"

type Answerer = Callable[[Json, Path], str]
"""From a job and its log to one line; a LigerdiagError becomes the line instead."""


def serve(prepare: Callable[[], Answerer], *, starts_nothing: bool = False) -> None:
    """Forks workers, or answers jobs, until the socket closes. `prepare` does the slow imports, before it is ready.

    starts_nothing: the jobs start no process.
    """
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _prefer_for_oom()
    _limit_memory()
    end_watch = watch_parent()
    answer = prepare()
    end_watch()
    forks = not os.environ.pop(FRESH_VARIABLE, "") and can_fork()
    channel.sendall(render_ready(os.getpid(), forks=forks))
    if forks:
        serve_forks(channel, lambda jobs: _answer_jobs(jobs, answer, starts_nothing=starts_nothing))
    else:
        _answer_jobs(channel, answer, starts_nothing=starts_nothing)


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
            text = render_error(CompileError("out of memory"))
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
