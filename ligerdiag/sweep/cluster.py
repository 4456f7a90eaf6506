"""Runs tasks on the Dask workers of a sweep: processes of this machine, or the workers of a scheduler that runs already.

Without an address, a cluster on this machine starts and ends with the sweep, with one worker per core. Its connections are
encrypted with a key that nobody else has, because whoever reaches a worker can run anything on it. Its workers share
the processes that have imported JAX (`workers.template_server`).

Losing a worker costs only time: others do its tasks. A task is given up after it has lost its worker or its process
`ATTEMPTS` times. Another task on the same worker may have been at fault, so the last attempt runs alone. With a scheduler
that ran before the sweep, each attempt may cost as many workers as the scheduler's setting `allowed-failures`.

A worker can say which toolchains it has, as Dask resources: `dask worker --resources ligerdiag-seed=1`. If any worker
names a toolchain, its tasks go to the workers that do; otherwise each worker makes the toolchain when it needs it.
"""

import logging
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol

from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.workers.pool import count_cores

ATTEMPTS = 3
NEEDED = ("distributed", "fsspec", "pyarrow", "cryptography")
"""Modules that the extra `sweep` of ligerdiag installs."""
RESOURCE = "ligerdiag-"
"""Prefix of the name of a Dask resource that says which toolchain a worker has."""
_WINDOW = 1000
"""Largest number of tasks that are submitted to the scheduler at a time."""
_CONNECT_SECONDS = 20
_QUIET: dict[str, object] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.nanny.pre-spawn-environ.PYTHONSAFEPATH": "1",  # otherwise a worker imports files of the working directory
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.tick.limit": "1h",  # no warning that the machine is busy
    "distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s",
    "logging": {"distributed": "critical"},
}


class Task(Protocol):
    """The protocol of a task, which is plain data. The function that a worker runs gets it as its first argument."""

    @property
    def key(self) -> str:
        """Returns a key that only this task has."""
        ...

    @property
    def toolchain(self) -> str:
        """Returns the name of the toolchain that the task needs."""
        ...


class LostWorker(LigerdiagError):
    """Raised if the worker of a task has ended."""


class LostScheduler(LigerdiagError):
    """Raised if the scheduler has ended, or no longer answers."""

    def __init__(self) -> None:
        super().__init__("the scheduler lost the task: start the sweep again to continue")


def require_extra() -> None:
    """Raises InputError if a package that a sweep needs is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"a sweep needs {', '.join(missing)}: pip install 'ligerdiag[sweep]'")


@contextmanager
def open_cluster(address: str | None, workers: int | None) -> Generator[Any]:
    """Opens the workers of a sweep, and yields their `distributed.Client`.

    address: address of a scheduler that runs already. None starts workers on this machine. workers: how many to start; None
    means one per core. Raises InputError if there is no scheduler at the address.
    """
    dask, distributed = _import("dask"), _import("distributed")
    with dask.config.set(_QUIET):
        for name in [one for one in logging.root.manager.loggerDict if one.partition(".")[0] == "distributed"]:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # each logger has a level of its own
        if address is not None:
            with _connect(distributed, address) as client:
                yield client
            return
        with (
            _open_scratch() as folder,
            _start_workers(distributed, workers or count_cores(), folder) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client


@contextmanager
def _start_workers(distributed: Any, count: int, folder: Path) -> Generator[Any]:
    """Yields a `distributed.LocalCluster` without a dashboard and without limits on the memory of its workers, because
    each task runs in a process of its own.

    The workers start in a thread that blocks SIGINT, and they inherit that: in a terminal, Ctrl-C reaches this process
    alone, which then ends its workers. A sweep that is ended during the start waits until its workers have started, and
    then ends them.
    """

    def start() -> Any:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=0,
            security=True,
            silence_logs=logging.CRITICAL,
            local_directory=str(folder),
        )

    resource_tracker.ensure_running()  # started here, because starting it later would unblock Ctrl-C
    with ThreadPoolExecutor(1) as starter:
        starting = starter.submit(start)
        try:
            cluster = starting.result()
        except KeyboardInterrupt:
            with suppress(OSError, RuntimeError):
                starting.result().close()
            raise
        except (OSError, RuntimeError) as error:
            raise LigerdiagError(
                f"the workers of the sweep did not start; run the same command to try again: {error}"
            ) from error
    with cluster:
        yield cluster


@contextmanager
def _connect(distributed: Any, address: str) -> Generator[Any]:
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"cannot reach a Dask scheduler at `{address}`: {error}") from error
    with client:
        yield client


def run_tasks[Given: Task, Words](
    client: Any, do: Callable[[Given, Words], Any], tasks: Sequence[tuple[Given, Words]]
) -> Iterator[tuple[Given, Any]]:
    """Yields each task when a worker has done it, with its result, or with the error that occurred.

    do: the function that a worker runs for each task. It must be at the top level of a module, because workers find it by
    name. tasks: the arguments of `do`, as pairs of a task and further settings. Closing the iterator ends the tasks.
    """
    for attempt in range(1, ATTEMPTS + 1):
        is_last, lost = attempt == ATTEMPTS, list[tuple[Given, Words]]()
        for task, words, result in _run_round(client, do, tasks, attempt, 1 if is_last else _WINDOW):
            if isinstance(result, LostWorker) and not is_last:
                lost.append((task, words))
            else:
                yield task, result
        tasks = lost


def _run_round[Given: Task, Words](
    client: Any,
    do: Callable[[Given, Words], Any],
    tasks: Sequence[tuple[Given, Words]],
    attempt: int,
    window: int,
) -> Iterator[tuple[Given, Words, Any]]:
    """Runs each task once, and yields (task, its further words, its result or error). attempt: number of this round, which
    makes the names of its Dask jobs differ from those of earlier rounds. window: largest number of tasks that are
    submitted to the scheduler at a time.
    """
    distributed, waiting = _import("distributed"), iter(tasks)
    try:
        named = find_resources(client)
    except LostScheduler as error:
        yield from ((task, words, error) for task, words in tasks)
        return
    running: dict[str, tuple[Given, Words, Any]] = {}

    def submit(count: int) -> Iterator[Any]:
        for task, words in islice(waiting, count):
            name = f"ligerdiag-{do.__name__}-{attempt}-{task.key}"
            resource = RESOURCE + task.toolchain
            needed = {resource: 1} if resource in named else None
            future = client.submit(do, task, words, key=name, retries=ATTEMPTS - 1, pure=False, resources=needed)
            running[name] = (task, words, future)
            yield future

    try:
        done = distributed.as_completed(submit(window), loop=client.loop)
        for future in done:
            task, words, _ = running.pop(future.key)
            for another in submit(1):
                done.add(another)
            yield task, words, _find_fault(future) or future.result()
            future.release()
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.cancel([future for _, _, future in running.values()], force=True)


def find_resources(client: Any) -> frozenset[str]:
    """Returns the names of the Dask resources by which workers say which toolchains they have. Raises LostScheduler if the
    scheduler does not answer.
    """
    known = client.scheduler_info(n_workers=-1)
    if client.status != "running" or "workers" not in known:
        raise LostScheduler
    return frozenset(
        name for one in known["workers"].values() for name in one["resources"] if name.startswith(RESOURCE)
    )


def _find_fault(future: Any) -> LigerdiagError | None:
    if future.status == "finished":
        return None
    fault = future.exception() if future.status == "error" else None
    match fault:
        case None:
            return LostScheduler()
        case LigerdiagError():
            return fault
        case _ if type(fault).__name__ == "KilledWorker":
            return LostWorker(f"its worker was lost {ATTEMPTS} times, the last time with no other task beside it")
        case _:
            return LigerdiagError(f"its worker raised {type(fault).__name__}: {' '.join(str(fault).split())[:400]}")


@contextmanager
def _open_scratch() -> Generator[Path]:
    folder = ScratchFolder("sweep")
    try:
        yield folder.path
    finally:
        folder.remove()


def _import(name: str) -> Any:
    return import_module(name)
