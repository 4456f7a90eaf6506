"""A sweep over a scheduler and two workers with separate network addresses, while its processes are killed one by one."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ligerdiag.sweep.result_store import ResultStore
from tests.processor_time import walk_processes
from tests.sweep.test_sweep import IDS, read_rows, start, write_grid

ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Of the workers: every address in 127.0.0.0/8 belongs to this machine."""


@dataclass(slots=True, kw_only=True)
class Machines:
    """A scheduler and workers, each a process group that can be killed and started again."""

    folder: Path
    cache: Path
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    @property
    def address(self) -> str:
        """Returns the scheduler's address, once it is up."""
        file = self.folder / "scheduler"
        end = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < end, "no scheduler"
            time.sleep(0.05)
        return file.read_text()

    def start(self) -> None:
        """Starts the processes that are not running."""
        if not self._runs("scheduler"):
            for name in ADDRESSES:
                self.kill(name)
            (self.folder / "scheduler").unlink(missing_ok=True)
            self._start("scheduler", SCHEDULER, str(self.folder / "scheduler"))
        for name in ADDRESSES:
            if not self._runs(name):
                self._start(name, WORKER, self.address, name)

    def kill(self, name: str) -> None:
        """Kills a process and everything it started, like a machine that is switched off."""
        process = self.processes.get(name)
        if process is not None:
            below = list(walk_processes(process.pid))
            for pid in (process.pid, *below):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

    def _runs(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def _start(self, name: str, program: str, *words: str) -> None:
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(self.cache)}
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-P", "-c", program, *words], cwd=self.folder, env=environment, stdout=log, stderr=log
        )


SCHEDULER = """
import asyncio, os, sys
from distributed import Scheduler

async def run():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(scheduler.address)
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        await scheduler.finished()

asyncio.run(run())
"""
WORKER = """
import asyncio, sys
from distributed import Worker

async def run():
    async with Worker(sys.argv[1], host=sys.argv[2], nthreads=1, dashboard=False, memory_limit=0) as worker:
        assert worker.address.startswith(f"tcp://{sys.argv[2]}:")
        await worker.finished()

asyncio.run(run())
"""


@contextmanager
def open_machines(folder: Path, cache: Path) -> Generator[Machines]:
    """Yields a scheduler with its workers."""
    folder.mkdir()
    machines = Machines(folder=folder, cache=cache)
    try:
        machines.start()
        yield machines
    finally:
        for name in ("scheduler", *ADDRESSES):
            machines.kill(name)


@pytest.mark.nightly
def test_two_addresses_give_the_same_table_as_two_processes(tmp_path: Path, shared_cache: Path) -> None:
    write_grid(tmp_path / "grid.toml", IDS)
    process = start(tmp_path / "grid.toml", shared_cache)
    said, trouble = process.communicate(timeout=600)
    assert process.returncode == 0, said + trouble
    rows = read_rows(tmp_path / "grid.toml")
    assert len(rows) == 4
    write_grid(tmp_path / "grid.toml", IDS)
    with open_machines(tmp_path / "machines", shared_cache) as machines:
        words = ("--scheduler", machines.address, "--store", str(tmp_path / "elsewhere"))
        process = start(tmp_path / "grid.toml", shared_cache, *words)
        said, trouble = process.communicate(timeout=600)
        assert process.returncode == 0, said + trouble
        assert said.startswith("4 cells in 2 columns: 4 done, 0 known before\n"), said + trouble
    assert read_rows(tmp_path / "grid.toml") == rows
    assert ResultStore(str(tmp_path / "elsewhere")).list_keys() == {row.key for row in rows}


KINDS = ("worker", "scheduler", "client")


@pytest.mark.nightly
def test_ten_kills_of_a_worker_the_scheduler_or_the_client_lose_nothing_and_duplicate_nothing(
    tmp_path: Path, shared_cache: Path
) -> None:
    grid, store = tmp_path / "grid.toml", tmp_path / "elsewhere"
    write_grid(grid, ["seed_flce[*]"])
    draw, kinds = random.Random(7), [*KINDS * 3, "worker"]
    draw.shuffle(kinds)
    kept, client = frozenset[str](), None
    with open_machines(tmp_path / "machines", tmp_path / "cache") as machines:
        for kind in kinds:
            machines.start()
            if client is None or client.poll() is not None:
                words = ("--scheduler", machines.address, "--store", str(store))
                client = start(grid, tmp_path / "cache", *words)
            moment = draw.uniform(2.0, 9.0)
            time.sleep(moment)
            was_running = client.poll() is None
            match kind:
                case "worker":
                    machines.kill(draw.choice(ADDRESSES))
                case "scheduler":
                    machines.kill("scheduler")
                    said, trouble = client.communicate(timeout=180)  # it reports this, and does not wait forever
                    codes = (2, 3) if was_running else (0,)  # 2: it had not found the scheduler yet
                    assert client.returncode in codes, said + trouble
                    assert "Traceback" not in trouble
                case _:
                    client.kill()
                    client.communicate()
            found = ResultStore(str(store)).list_keys()
            assert kept <= found, "a result is lost"
            kept = found
            print(
                f"{kind:9} after {moment:4.1f} s, the sweep {'runs' if was_running else 'is over'}: {len(kept)} results"
            )
        machines.start()
        if client is not None and client.poll() is None:
            client.communicate(timeout=600)
        client = start(grid, tmp_path / "cache", "--scheduler", machines.address, "--store", str(store))
        said, trouble = client.communicate(timeout=600)
        assert client.returncode == 0, said + trouble
        print(said)
    rows = read_rows(grid)
    assert len(rows) == len({(row.case, row.column) for row in rows}) == 32
    assert ResultStore(str(store)).list_keys() == {row.key for row in rows}
    assert [path.name for path in store.iterdir() if not path.name.endswith(".json")] == []
    client = start(grid, shared_cache)
    said, trouble = client.communicate(timeout=600)
    assert client.returncode == 0, said + trouble
    assert read_rows(grid) == rows, "as undisturbed, on two processes of this machine"
