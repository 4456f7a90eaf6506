"""Parent side: a few workers that take one job after another.

1. A worker is started when a job finds none idle, so there are never more than jobs at once, and never more than asked.
2. A job that a worker dies of, or that takes too long, fails alone; the next job gets another worker.
3. A worker that has a source loaded is preferred for the next job of that source.
4. `close` ends all workers at once, busy ones too: their jobs fail, and what they left in progress is removed.
"""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from shutil import rmtree
from threading import Lock
from types import TracebackType
from typing import Self

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.fields import FieldError
from ligerdiag.compile.job import Answer, CompileRequest, Request, Source, parse_answer, render_request
from ligerdiag.compile.toolchain import Toolchain, current_toolchain, worker_environment
from ligerdiag.compile.worker_process import MEMORY_VARIABLE, WorkerDied, WorkerProcess, WorkerTimeout
from ligerdiag.errors import CompileError, LigerdiagError

LOG_LINES = 20
LOG_TAIL_BYTES = 64 << 10


class Pool:
    """Workers of one toolchain, started as they are needed; a context manager."""

    def __init__(
        self,
        *,
        cache: Cache | None = None,
        toolchain: Toolchain | None = None,
        jobs: int | None = None,
        timeout: float = 300.0,
        memory_limit: int | None = None,
    ) -> None:
        """jobs: workers at most, by default one per core. timeout: seconds for one job. memory_limit: bytes a worker."""
        self.cache = cache or Cache()
        self.toolchain = toolchain or current_toolchain()
        self.jobs = jobs or _count_cores()
        self.timeout = timeout
        self._environment = worker_environment(self.toolchain, self.cache.root)
        if memory_limit is not None:
            self._environment[MEMORY_VARIABLE] = str(memory_limit)
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ligerdiag-worker")
        self._logs = Path(tempfile.mkdtemp(prefix="ligerdiag-"))
        self._numbers = count()
        self._lock = Lock()
        self._idle: list[tuple[WorkerProcess, Source]] = []
        self._workers: set[WorkerProcess] = set()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, request: Request, on_start: Callable[[], None] | None = None) -> Future[Answer]:
        """The worker's answer, or its LigerdiagError; `on_start` is called in another thread when the job begins."""
        return self._executor.submit(self._run, request, on_start)

    def close(self) -> None:
        """Ends all workers, also busy ones, and waits until they are gone."""
        with self._lock:
            self._is_closed = True
            workers = list(self._workers)
        for worker in workers:
            worker.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()
        rmtree(self._logs, ignore_errors=True)

    def _run(self, request: Request, on_start: Callable[[], None] | None) -> Answer:
        if on_start is not None:
            on_start()
        log = self._logs / f"job-{next(self._numbers)}.log"
        log.touch()
        worker = self._take(request.source, log)
        try:
            worker.wait_until_ready()
            line = worker.ask(render_request(request, str(log)), self.timeout)
        except (WorkerDied, WorkerTimeout) as end:
            self._drop(worker)
            raise CompileError(f"the worker for {_name(request)} {end}", _read_tail(log)) from end
        except BaseException:
            self._drop(worker)
            raise
        finally:
            if isinstance(request, CompileRequest):
                rmtree(request.scratch, ignore_errors=True)
                rmtree(f"{request.scratch}-old", ignore_errors=True)
        with self._lock:
            self._idle.append((worker, request.source))
        try:
            return parse_answer(line)
        except FieldError as error:
            raise CompileError(f"the worker for {_name(request)} gave no answer: {error}", _read_tail(log)) from error
        except CompileError as error:
            raise CompileError(str(error), _read_tail(log)) from error
        finally:
            log.unlink(missing_ok=True)

    def _take(self, source: Source, log: Path) -> WorkerProcess:
        """An idle worker, best one that has the source loaded, else a new one."""
        with self._lock:
            self._idle.sort(key=lambda entry: entry[1] == source)
            while self._idle:
                worker, _ = self._idle.pop()
                if worker.is_alive:
                    return worker
                self._workers.discard(worker)
                worker.close()
            if self._is_closed:
                raise LigerdiagError("the workers were ended")
            try:
                worker = WorkerProcess(self.toolchain.python, self._environment, log)
            except OSError as error:
                raise CompileError(f"cannot start a worker with `{self.toolchain.python}`: {error}") from error
            self._workers.add(worker)
            return worker

    def _drop(self, worker: WorkerProcess) -> None:
        worker.close()
        with self._lock:
            self._workers.discard(worker)


def _count_cores() -> int:
    return len(os.sched_getaffinity(0))


def _name(request: Request) -> str:
    return f"case `{request.case_id}`" if isinstance(request, CompileRequest) else f"`{request.source}`"


def _read_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_LINES:])
