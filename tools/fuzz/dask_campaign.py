"""Judges the programs of a campaign on the workers of a Dask scheduler: `python -m tools.fuzz --scheduler`.

A worker draws and judges the programs of a task in a process of its own, and returns the rows. They are appended to the
campaign's file on this machine, so a campaign continues on either. A worker with other sources or versions would draw
other programs from the same seeds: it refuses the task.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import batched
from pathlib import Path

from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import decode_record, encode_record
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.sweep.campaign import describe_rate
from ligerdiag.sweep.cluster import open_cluster, require_extra, run_tasks
from ligerdiag.sweep.grid import compute_fingerprint
from ligerdiag.sweep.task import TaskDied, UnfitWorker
from ligerdiag.toolchains.toolchain_table import DEFAULT
from tools.fuzz.judged_programs import JudgedProgram, load_known
from tools.fuzz.processes import Workload, append_row, read_processor_seconds, run_workloads

PORTION = 12
"""Programs per task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTask:
    """A task for a Dask worker, as plain data."""

    key: str
    workload: Workload
    """The seeds of the task; its directory is the worker's."""
    fingerprint: str
    """sha256 of the client's ligerdiag, tools/fuzz and versions of the toolchain."""
    toolchain: str = DEFAULT


def judge_on_cluster(
    workload: Workload, address: str, path: Path, report_progress: OnProgress
) -> tuple[tuple[str, ...], float]:
    """Lets the workers of the scheduler judge the programs, and appends a row for each to the file at `path`.

    Returns a line for each kind of failure, and the processor seconds of the workers. Raises InputError if there is no
    scheduler.
    """
    require_extra()
    path.parent.mkdir(parents=True, exist_ok=True)
    tasks, faults, seconds = plan_tasks(workload), dict[str, None](), 0.0
    with open_cluster(address, None) as client:
        started, done = time.monotonic(), 0
        for task, result in run_tasks(client, judge_task, [(task, None) for task in tasks]):
            if isinstance(result, LigerdiagError):
                faults[str(result)] = None
            else:
                rows, cost = result
                for row in rows:
                    append_row(path, decode_record(JudgedProgram, row))
                seconds += cost
            done += len(task.workload.seeds)
            said = describe_rate(done, len(workload.seeds), time.monotonic() - started)
            report_progress(
                Progress(phase="judge", event="finished", done=done, total=len(workload.seeds), case_id=said)
            )
            if workload.is_over:
                break
    return tuple(faults), seconds


def plan_tasks(workload: Workload) -> Sequence[WorkloadTask]:
    """Divides the workload into tasks of `PORTION` seeds."""
    fingerprint = _fingerprint_sources(DEFAULT)
    workloads = [replace(workload, directory="", seeds=seeds, until=None) for seeds in batched(workload.seeds, PORTION)]
    keys = [sha256(repr((fingerprint, one)).encode()).hexdigest() for one in workloads]
    return [
        WorkloadTask(key=key, workload=one, fingerprint=fingerprint) for key, one in zip(keys, workloads, strict=True)
    ]


def judge_task(task: WorkloadTask, words: None) -> tuple[list[object], float]:
    """Returns, on a worker, the rows of the task's programs as JSON, and processor seconds. Raises UnfitWorker and
    TaskDied."""
    del words
    if _fingerprint_sources(task.toolchain) != task.fingerprint:
        raise UnfitWorker("a worker has another ligerdiag, tools/fuzz or toolchain than this machine: use one checkout")
    scratch, before = ScratchFolder("fuzz"), read_processor_seconds()
    try:
        workload, path = replace(task.workload, directory=str(scratch.path)), scratch.path / "programs.jsonl"
        faults = run_workloads("tools.fuzz.campaign", [workload], path, lambda _: None)
        rows = load_known(JudgedProgram, path)
        if faults and len(rows) < len(workload.seeds):
            raise TaskDied(f"the process of a task ended: {faults[0]}")
        return [encode_record(row) for row in rows], read_processor_seconds() - before
    finally:
        scratch.remove()


def _fingerprint_sources(toolchain: str) -> str:
    """Returns a sha256 of ligerdiag, of this folder and of the versions of the toolchain."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py*")) if path.is_file())
    return sha256(compute_fingerprint(toolchain).encode() + sources).hexdigest()
