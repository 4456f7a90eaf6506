"""Worker side: `python -m ligerdiag.compile.worker` takes one job per line on stdin and answers each with one line.

1. Answers go to what was stdout at the start. Whatever the program, JAX or XLA print during a job, up to the message of
   an abort, goes to the job's log.
2. When memory runs out, the operating system is told to take the worker and not its parent.
3. A worker ends with its parent: when stdin closes, or at the latest a second after the parent is gone.
"""

import os
import resource
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ligerdiag.compile.job import (
    Answer,
    CompileRequest,
    DiscoverAnswer,
    DiscoverRequest,
    Request,
    parse_request,
    render_answer,
    render_error,
)
from ligerdiag.compile.worker_process import MEMORY_VARIABLE, READY
from ligerdiag.errors import CompileError, LigerdiagError

if TYPE_CHECKING:
    from ligerdiag.compile.case_loader import CaseLoader

OOM_SCORE = "800"


def main() -> None:
    """Answers jobs until stdin closes."""
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _prefer_for_oom()
    threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True).start()

    # before any file of the user's: see case_loader
    from ligerdiag.compile.case_loader import CaseLoader
    from ligerdiag.compile.lowering import configure_locations

    configure_locations(str(Path(__file__).parent))
    loader = CaseLoader()
    _write(answers, READY)
    for line in jobs:
        request, log = parse_request(line)
        _redirect(log)
        try:
            text = render_answer(_answer(request, loader, Path(log)))
        except LigerdiagError as error:
            text = render_error(error)
        except MemoryError:
            traceback.print_exc()
            text = render_error(CompileError("out of memory"))
        sys.stdout.flush()
        sys.stderr.flush()
        _write(answers, text)


def _answer(request: Request, loader: "CaseLoader", log: Path) -> Answer:
    from ligerdiag.compile.case_loader import describe_case
    from ligerdiag.compile.compile_job import compile_case

    match request:
        case DiscoverRequest(source=source):
            cases = tuple(describe_case(case, source) for case in loader.load(source).values())
            return DiscoverAnswer(cases=cases, dependencies=loader.compute_dependencies())
        case CompileRequest():
            return compile_case(request, loader, log)


def _write(answers: TextIO, text: str) -> None:
    answers.write(text)
    answers.flush()


def _redirect(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def _prefer_for_oom() -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    limit = os.environ.get(MEMORY_VARIABLE)
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))


def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
