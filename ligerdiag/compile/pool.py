"""Parent side: a few workers that take one job after another.

1. A worker is started when a job finds none idle, so there are never more than jobs at once, and never more than asked.
2. A job that a worker dies of, or that takes too long, fails alone; the next job gets another worker.
3. A worker that has a source loaded is preferred for the next job of that source.
4. `close` ends all workers at once, busy ones too: their jobs fail, and what they left in progress is removed.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from threading import Lock
from types import TracebackType
from typing import Self

from ligerdiag.compile.cache import Cache, find_cache_root
from ligerdiag.compile.fields import FieldError
from ligerdiag.compile.job import Job, Source
from ligerdiag.compile.scratch_folder import ScratchFolder
from ligerdiag.compile.toolchain import Toolchain, current_toolchain, worker_environment
from ligerdiag.compile.worker_process import MEMORY_VARIABLE, WorkerDied, WorkerProcess, WorkerTimeout
from ligerdiag.errors import CaseError, CompileError, LigerdiagError

COMPILE_WORKER = "ligerdiag.compile.worker"
LOG_LINES = 20
LOG_TAIL_BYTES = 64 << 10


class Pool:
    """Workers of one kind and toolchain, started as they are needed; a context manager."""

    def __init__(
        self,
        *,
        cache: Cache | None = None,
        toolchain: Toolchain | None = None,
        jobs: int | None = None,
        timeout: float = 300.0,
        memory_limit: int | None = None,
        module: str = COMPILE_WORKER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """jobs: workers at most, by default one per core. timeout: seconds for one job. memory_limit: bytes a worker.

        module: what a worker runs. environment: variables over those of a compile worker.
        """
        self._cache = cache
        self.toolchain = toolchain or current_toolchain()
        self.jobs = jobs or count_cores()
        self.timeout = timeout
        self._module = module
        root = find_cache_root() if cache is None else cache.root
        self._environment = worker_environment(self.toolchain, root) | dict(environment or {})
        if memory_limit is not None:
            self._environment[MEMORY_VARIABLE] = str(memory_limit)
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ligerdiag-worker")
        self._folder = ScratchFolder()
        self._logs = self._folder.path
        self._numbers = count()
        self._lock = Lock()
        self._idle: list[tuple[WorkerProcess, Source]] = []
        self._workers: set[WorkerProcess] = set()
        self._is_closed = False

    @cached_property
    def cache(self) -> Cache:
        """Where answers are kept; opened when it is first asked for, unless it was given."""
        return self._cache or Cache()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit[A](self, job: Job[A], on_start: Callable[[], None] | None = None) -> Future[A]:
        """The worker's answer, or its LigerdiagError; `on_start` is called in another thread when the job begins."""
        return self._executor.submit(self._run, job, on_start)

    def run_all[A](self, jobs: Sequence[Job[A]]) -> Iterator[tuple[int, Future[A] | None]]:
        """Yields the number of each job with None when it begins, and with its finished future when it ends."""
        news: SimpleQueue[tuple[int, Future[A] | None]] = SimpleQueue()
        futures: list[Future[A]] = []
        try:
            for number, job in enumerate(jobs):
                future = self.submit(job, lambda number=number: news.put((number, None)))
                future.add_done_callback(lambda future, number=number: news.put((number, future)))
                futures.append(future)
            left = len(futures)
            while left:
                number, future = news.get()
                left -= future is not None
                yield number, future
        finally:
            for future in futures:
                future.cancel()

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
        self._folder.remove()

    def _run[A](self, job: Job[A], on_start: Callable[[], None] | None) -> A:
        if on_start is not None:
            on_start()
        log = self._logs / f"job-{next(self._numbers)}.log"
        log.touch()
        worker = self._take(job.source, log)
        try:
            worker.wait_until_ready()
            line = worker.ask(job.render(str(log)), job.timeout or self.timeout)
        except (WorkerDied, WorkerTimeout) as end:
            self._drop(worker)
            if job.imports_only and isinstance(end, WorkerDied) and end.exit_code is not None:
                raise CaseError(
                    f"{job.name} does not import: it ends the process with exit code {end.exit_code}, as by `os._exit`"
                ) from end
            raise CompileError(f"the worker for {job.name} {end}", _read_tail(log)) from end
        except BaseException:
            self._drop(worker)
            raise
        finally:
            for directory in job.leftovers:
                rmtree(directory, ignore_errors=True)
        with self._lock:
            self._idle.append((worker, job.source))
        try:
            return job.parse(line)
        except FieldError as error:
            raise CompileError(f"the worker for {job.name} gave no answer: {error}", _read_tail(log)) from error
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
                worker = WorkerProcess(self.toolchain.python, self._module, self._environment, log, folder=self._logs)
            except OSError as error:
                raise CompileError(f"cannot start a worker with `{self.toolchain.python}`: {error}") from error
            self._workers.add(worker)
            return worker

    def _drop(self, worker: WorkerProcess) -> None:
        worker.close()
        with self._lock:
            self._workers.discard(worker)


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _read_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_LINES:])
