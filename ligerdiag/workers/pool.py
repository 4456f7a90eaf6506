"""Implements a pool of worker processes: gives each job to a worker that has loaded the job's source, and starts workers as
needed. A source is the file, module or live function that defines the cases.

A worker starts when a job finds no idle worker for its source, so there are never more workers than concurrent jobs,
nor more than the pool's `jobs`. A worker takes the jobs of one source only, because a case can change the process that
it runs in. A job whose worker dies or takes too long fails alone, and the next job gets another worker. The pool ends a
worker if its answer cannot be read, or if it sends more than one answer. `close` ends all workers at once, including
busy ones: their jobs fail, and their half-written directories are removed.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from threading import Lock
from typing import Self

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.cache_root import find_cache_root
from ligerdiag.codec import FieldError
from ligerdiag.errors import CaseError, CompileError, LigerdiagError, WorkerImportError
from ligerdiag.model.jobs import Job, Source, is_refusal
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain, worker_environment
from ligerdiag.workers.given_process import GIVEN_VARIABLE, render_given
from ligerdiag.workers.process import (
    FRESH_VARIABLE,
    MEMORY_VARIABLE,
    WorkerDied,
    WorkerProcess,
    WorkerTimeout,
)
from ligerdiag.workers.templates import TemplateKind, Templates

COMPILE_WORKER = "ligerdiag.compile.compile_worker"
LOG_LINES = 20
LOG_TAIL_BYTES = 64 << 10
_MOST_LETTERS = 200
_FATAL = re.compile(r"F\d{4} \d\d:")
_STACK = re.compile(r"\s+@\s+0x[0-9a-f]+ |\*\*\* Check failure stack trace")


type _Member[A] = tuple[Job[A], Future[A], Callable[[], None]]
"""A job of a group, its future, and the function to call when it begins."""


class Pool:
    """Runs jobs in worker processes that all run the same module with the same toolchain. A pool is a context manager."""

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
        forks: bool = True,
        templates: Templates | None = None,
        template: str = "",
    ) -> None:
        """cache: the cache in which the answers are kept; by default the user's. toolchain: the set of packages with
        which the workers run; by default the current one. jobs: the most workers, by default one per core. timeout:
        seconds per job. memory_limit: bytes of data per worker.

        module: the module that a worker runs. environment: environment variables that override those of a compile
        worker. forks: whether a worker may be forked from a template, a process that has already done the imports.
        templates: templates that the caller keeps for several pools; by default the pool has its own. template: the
        module whose imports the template has done before it forks a worker; by default `module`.
        """
        self._cache = cache
        self.toolchain = toolchain or current_toolchain()
        self.jobs = jobs or count_cores()
        self.timeout = timeout
        try:
            self._folder = ScratchFolder()
        except OSError as error:
            raise LigerdiagError(f"cannot make a temporary folder ({error.strerror}): set TMPDIR") from error
        self._logs = self._folder.path
        root = find_cache_root() if cache is None else cache.root
        variables = worker_environment(self.toolchain, root) | dict(environment or {})
        variables["TMPDIR"] = str(self._logs)  # XLA leaves files there when a worker dies
        if memory_limit is not None:
            variables[MEMORY_VARIABLE] = str(memory_limit)
        if not forks:
            variables[FRESH_VARIABLE] = "1"
        variables[GIVEN_VARIABLE] = render_given(variables)
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ligerdiag-worker")
        self._start_log = self._logs / "start.log"
        self._module = module
        self._kind = TemplateKind(python=self.toolchain.python, module=template or module, environment=variables)
        self._templates = templates or Templates()
        self._shares_templates = templates is not None
        self._numbers = count()
        self._lock = Lock()
        self._idle: list[tuple[WorkerProcess, Source]] = []
        self._workers: set[WorkerProcess] = set()
        self._is_closed = False

    @cached_property
    def cache(self) -> Cache:
        """Returns the cache that stores the answers. It is the cache that the caller gave, or the default cache, which
        is opened on first use.
        """
        return self._cache or Cache()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit[A](self, job: Job[A], on_start: Callable[[], None] | None = None) -> Future[A]:
        """Submits a job and returns a future. Its result is the worker's answer, or the LigerdiagError with which the
        job failed.

        on_start: called by a thread of the pool when the job begins.
        """
        return self._executor.submit(self._run, job, on_start)

    def run_all[A](
        self, jobs: Sequence[Job[A]], groups: Sequence[Sequence[int]] | None = None
    ) -> Iterator[tuple[int, Future[A] | None]]:
        """Runs the jobs. Yields (position in `jobs`, None) when a job begins, and (position in `jobs`, finished future)
        when it ends.

        groups: the positions of all jobs, divided into groups. The jobs of a group run one after another, so jobs of
        the same source share a worker. By default all jobs may run side by side.
        """
        events: SimpleQueue[tuple[int, Future[A] | None]] = SimpleQueue()
        futures: list[Future[A]] = [Future() for _ in jobs]
        running: list[Future[None]] = []
        try:
            for number, future in enumerate(futures):
                future.add_done_callback(lambda future, number=number: events.put((number, future)))
            for group in groups if groups is not None else [(number,) for number in range(len(jobs))]:
                members: list[_Member[A]] = [
                    (jobs[number], futures[number], lambda number=number: events.put((number, None)))
                    for number in group
                ]
                turn = self._executor.submit(self._run_in_turn, members)
                turn.add_done_callback(lambda turn, members=members: turn.cancelled() and _cancel(members))
                running.append(turn)
            left = len(futures)
            while left:
                number, future = events.get()
                left -= future is not None
                yield number, future
        finally:
            for future in (*running, *futures):
                future.cancel()

    def _run_in_turn[A](self, members: Sequence[_Member[A]]) -> None:
        for job, future, on_start in members:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._run(job, on_start))
            except BaseException as error:
                future.set_exception(error)

    def close(self) -> None:
        """Ends all workers, including busy ones, waits until they are gone, and removes the pool's folder."""
        with self._lock:
            self._is_closed = True
            workers = list(self._workers)
        for worker in workers:
            worker.kill()
        self._templates.kill_importing(self._kind)
        self._executor.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()
        if not self._shares_templates:
            self._templates.close()
        self._folder.remove()

    def _run[A](self, job: Job[A], on_start: Callable[[], None] | None) -> A:
        if on_start is not None:
            on_start()
        log = self._logs / f"job-{next(self._numbers)}.log"
        try:
            log.touch()
        except OSError as error:
            raise CompileError(f"cannot write to `{self._logs}` ({error.strerror}): set TMPDIR") from error
        try:
            worker, line = self._ask(job, log)
        except (WorkerDied, WorkerTimeout) as end:
            tail = _read_tail(log)
            if job.imports_only and isinstance(end, WorkerDied) and end.exit_code is not None:
                printed = tail.strip().splitlines()
                after = f", after it printed `{printed[-1].strip()[:_MOST_LETTERS]}`" if printed else ""
                raise CaseError(
                    f"{job.name} does not import: it ends the process with exit code {end.exit_code}, as by"
                    f" `os._exit`{after}"
                ) from end
            raise CompileError(f"the worker for {job.name} {end}", tail or _read_tail(self._start_log)) from end
        finally:
            for directory in job.leftovers:
                rmtree(directory, ignore_errors=True)
        is_readable = True
        try:
            return job.parse(line)
        except FieldError as error:
            is_readable = False
            raise CompileError(
                f"the worker for {job.name} gave an answer that cannot be read: {error}", _read_tail(log)
            ) from error
        except CompileError as error:
            failure = CompileError(str(error), _read_tail(log))
            failure.printed = error.printed
            raise failure from error
        finally:
            if is_readable:
                with self._lock:
                    self._idle.append((worker, job.source))
            else:
                self._drop(worker)
            log.unlink(missing_ok=True)

    def _ask[A](self, job: Job[A], log: Path) -> tuple[WorkerProcess, str]:
        """Returns a worker and its answer to the job. An idle worker that refuses the job is ended, and another worker
        is asked. Raises WorkerDied or WorkerTimeout for a worker that fails during the job, and CompileError for one that
        fails before, when it has not read the job's source.
        """
        while True:
            taken = self._take(job.source)
            worker = taken or self._start(job.name, log)
            try:
                line = worker.ask(job.render(str(log)), job.timeout or self.timeout)
            except BaseException:
                self._drop(worker)
                raise
            if taken is None or not is_refusal(line):
                return worker, line
            self._drop(worker)

    def _take(self, source: Source) -> WorkerProcess | None:
        """Returns an idle worker that has loaded the source. If there is none, returns None and, if the pool is full,
        ends an idle worker of another source so that a new one can start.
        """
        found: WorkerProcess | None = None
        ended: list[WorkerProcess] = []
        with self._lock:
            idle, self._idle = self._idle, []
            for worker, loaded in idle:
                if not worker.is_alive:
                    ended.append(worker)
                elif found is None and loaded == source:
                    found = worker
                else:
                    self._idle.append((worker, loaded))
            if found is None and self._idle and len(self._workers) - len(ended) >= self.jobs:
                ended.append(self._idle.pop(0)[0])
        for worker in ended:
            self._drop(worker)
        return found

    def _start(self, name: str, log: Path) -> WorkerProcess:
        if self._is_closed:
            raise LigerdiagError("the pool of workers is closed, so no worker can start")
        try:
            worker = self._templates.start_worker(
                self._kind, self._module, log, self._start_log, lambda: not self._is_closed
            )
        except OSError as error:
            raise CompileError(f"cannot start a worker with `{self.toolchain.python}`: {error}") from error
        except (WorkerDied, WorkerTimeout) as end:
            tail = _read_tail(log) or _read_tail(self._start_log)
            if isinstance(end, WorkerDied) and end.exit_code is not None:
                last = f": {tail.strip().splitlines()[-1].strip()[:_MOST_LETTERS]}" if tail.strip() else ""
                doctor = f"`ligerdiag toolchains doctor {'default' if self.toolchain.is_own else self.toolchain.name}`"
                raise WorkerImportError(
                    f"no worker starts with toolchain `{self.toolchain.name}`: `{self.toolchain.python}` {end} during "
                    "the"
                    f" worker's own imports{last}; {doctor} says more"
                ) from end
            raise CompileError(f"the worker for {name} {end}", tail) from end
        with self._lock:
            self._workers.add(worker)
            if self._is_closed:
                worker.kill()
        return worker

    def _drop(self, worker: WorkerProcess) -> None:
        worker.close()
        with self._lock:
            self._workers.discard(worker)


def _cancel[A](members: Sequence[_Member[A]]) -> None:
    for _, future, _ in members:
        future.cancel()


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _read_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return render_tail(text)


def render_tail(text: str) -> str:
    """Returns the last lines of a log. If XLA ended with a fatal message, the message is among them: the stack trace
    after it is left out.
    """
    lines = text.splitlines()
    if any(_FATAL.match(line) for line in lines):
        lines = [line for line in lines if not _STACK.match(line)]
    return "\n".join(lines[-LOG_LINES:])
