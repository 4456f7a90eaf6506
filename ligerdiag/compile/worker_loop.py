"""Worker side: takes one job per line on stdin and answers each with one line, whatever kind of worker it is.

1. Answers go to what was stdout at the start. Whatever the program, JAX or XLA print during a job, up to the message of
   an abort, goes to the job's log.
2. When memory runs out, the operating system is told to take the worker and not its parent.
3. A worker ends with its parent (see `parent_process`). What it started is in its process group and ends with it.
4. A worker that dies leaves no core file.
"""

import os
import resource
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ligerdiag.compile.fields import Json, parse_object, read_str
from ligerdiag.compile.job import render_error
from ligerdiag.compile.parent_process import die_with_parent, end_group_with_parent
from ligerdiag.compile.worker_process import MEMORY_VARIABLE, READY
from ligerdiag.errors import CompileError, LigerdiagError

OOM_SCORE = "800"

type Answerer = Callable[[Json, Path], str]
"""From a job and its log to one line; a LigerdiagError becomes the line instead."""


def serve(prepare: Callable[[], Answerer], *, starts_nothing: bool = False) -> None:
    """Answers jobs until stdin closes. `prepare` does the slow imports, before the parent is told that we are ready.

    starts_nothing: the jobs start no process.
    """
    if starts_nothing:
        die_with_parent(os.getppid())
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    end_group_with_parent(jobs.fileno())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _prefer_for_oom()
    answer = prepare()
    _write(answers, READY)
    for line in jobs:
        job = parse_object(line)
        log = Path(read_str(job, "log"))
        _redirect(log)
        try:
            text = answer(job, log)
        except LigerdiagError as error:
            text = render_error(error)
        except MemoryError:
            traceback.print_exc()
            text = render_error(CompileError("out of memory"))
        sys.stdout.flush()
        sys.stderr.flush()
        _write(answers, text)


def _write(answers: TextIO, text: str) -> None:
    answers.write(text)
    answers.flush()


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
    limit = os.environ.get(MEMORY_VARIABLE)
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
