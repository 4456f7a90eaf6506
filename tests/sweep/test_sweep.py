"""A real sweep on real workers: a lost worker loses no result, a second sweep runs nothing, and any scheduler works."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.sweep.campaign import SweepOptions, SweepRow, run_sweep
from ligerdiag.sweep.sweep_table import read_parquet
from tests.processor_time import walk_processes

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", "-m", "ligerdiag")
IDS = ("seed_flce[False-float32-True-1-4-32-16]", "seed_flce[True-float32-True-1-4-32-16]")


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    write_grid(tmp_path / "grid.toml", IDS)
    return tmp_path / "grid.toml"


def write_grid(path: Path, ids: Sequence[str]) -> None:
    selectors = [f"{ROOT}/cases/seed_flce.py::{one}" for one in ids]
    path.write_text(f'selectors = {json.dumps(selectors)}\ntargets = ["a100", "h100"]\nreplay = false\n')


def start(grid: Path, cache: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ligerdiag",
            "sweep",
            str(grid),
            "--out",
            str(grid.parent / "out"),
            "--jobs",
            "2",
            *words,
        ],
        cwd=ROOT,
        env=os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_rows(grid: Path) -> list[SweepRow]:
    return [replace(row, seconds=0.0) for row in read_parquet(grid.parent / "out" / "sweep.parquet")]


def find_busy_workers(pid: int) -> Iterator[int]:
    """Returns the process ids of Dask's workers below `pid` that run a check."""
    for worker in walk_processes(pid):
        below = [read_words(one) for one in walk_processes(worker)]
        if b"--multiprocessing-fork" in read_words(worker) and any(b"check" in words for words in below):
            yield worker


def read_words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # the process has just ended
        return []


def kill_one(process: "subprocess.Popen[str]") -> bool:
    """Kills a worker while it runs a check."""
    while process.poll() is None:
        for worker in find_busy_workers(process.pid):
            os.kill(worker, signal.SIGKILL)
            return True
        time.sleep(0.01)
    return False


def test_a_lost_worker_loses_no_result_and_repeating_the_sweep_runs_nothing(
    grid: Path, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    (tmp_path / "threading.py").write_text("raise SystemExit('a file of the working directory was imported')\n")
    process = start(grid, shared_cache)
    assert kill_one(process)
    said, trouble = process.communicate(timeout=300)
    assert process.returncode == 0, said + trouble
    assert said.startswith("4 cells in 2 columns: 4 done, 0 known before\n"), said + trouble
    assert "Traceback" not in trouble
    rows = read_rows(grid)
    assert [(row.case, row.target, row.verdict) for row in rows] == [
        (IDS[0], "a100", "latent"),
        (IDS[0], "h100", "stale"),
        (IDS[1], "a100", "fresh"),
        (IDS[1], "h100", "fresh"),
    ]
    page = (grid.parent / "out" / "index.html").read_text()
    assert page.count("≠ changed") == 1
    results = grid.parent / "out" / "results"
    before = {path: path.stat().st_mtime_ns for path in results.iterdir()}
    assert len(before) == 4

    again = run_sweep(SweepOptions(grid=grid, store=str(results)), lambda step: None)
    assert (again.ran, again.found, again.failed) == (0, 4, {})
    assert [replace(row, seconds=0.0) for row in again.rows] == rows
    assert {path: path.stat().st_mtime_ns for path in results.iterdir()} == before

    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None, memory_limit=0
    ) as there:
        write_grid(grid, IDS[:1])
        options = SweepOptions(grid=grid, store=str(grid.parent / "elsewhere"), scheduler=there.scheduler_address)
        elsewhere = run_sweep(options, lambda step: None)
    assert (elsewhere.ran, elsewhere.failed) == (2, {})
    assert [replace(row, seconds=0.0) for row in elsewhere.rows] == rows[:2]


@pytest.mark.nightly
def test_ten_ends_at_random_moments_lose_nothing_and_duplicate_nothing(grid: Path, tmp_path: Path) -> None:
    """Workers, the scheduler with the client, and Ctrl-C."""
    draw, cache = random.Random(20), tmp_path / "cache"
    for number in range(10):
        process = start(grid, cache, *(["--refresh"] if number % 4 == 3 else []))
        time.sleep(draw.uniform(0.5, 12.0))
        match number % 3:
            case 0:
                kill_one(process)
                time.sleep(draw.uniform(0.0, 3.0))
                process.send_signal(signal.SIGKILL)
            case 1:
                process.send_signal(signal.SIGINT)
            case _:
                process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
    process = start(grid, cache)
    said, trouble = process.communicate(timeout=600)
    assert process.returncode == 0, said + trouble
    rows = read_rows(grid)
    assert [row.verdict for row in rows] == ["latent", "stale", "fresh", "fresh"]
    assert len(list((tmp_path / "out" / "results").glob("*.json"))) == len(rows)


ENDS_WORKERS = """
import os, signal
from pathlib import Path
from ligerdiag import Arg, Case

def function(x):
    mine = f"LIGERDIAG_CACHE_DIR={os.environ['LIGERDIAG_CACHE_DIR']}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (process / "cmdline").read_bytes(), (process / "environ").read_bytes().split(b"\\0")
        except OSError:
            continue
        if b"--multiprocessing-fork" in words and mine in variables:
            os.kill(int(process.name), signal.SIGKILL)
    return x

CASE = Case(name="ends_workers", function=function, args=(Arg(shape=(4,)),))
"""
GOOD = """
from ligerdiag import Arg, Case
CASES = tuple(Case(name="good", params=(n,), function=lambda x: x + 1, args=(Arg(shape=(n,)),)) for n in (4, 5, 6))
"""


@pytest.mark.nightly
def test_a_case_that_ends_every_worker_is_given_up_without_affecting_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(ENDS_WORKERS)
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "grid.toml").write_text('selectors = ["bad.py", "good.py"]\n')
    process = start(tmp_path / "grid.toml", tmp_path / "cache")
    said, trouble = process.communicate(timeout=600)
    assert process.returncode == 3, said + trouble
    assert "no result, 1 task: its worker was lost 3 times" in said, said + trouble
    rows = read_rows(tmp_path / "grid.toml")
    assert [row.status.value for row in rows] == ["could not analyse", *["nothing to check"] * 3]
