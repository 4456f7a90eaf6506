"""`fuzz --scheduler`: the programs of a campaign on the workers of a Dask scheduler.

1. A task is a few seeds. A worker draws their programs itself, judges them in a process of its own, in a folder of its own,
   and sends the rows back, which are appended here: the campaign goes on behind what is there, wherever it began.
2. A seed stands for another program where ligerdiag is another: such a worker refuses the task.
3. Of a task that is lost with its worker, see `sweep.cluster`, nothing is written. The next run does its seeds.
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
from ligerdiag.fuzz.crew import Share, append_row, read_processor_seconds, run_shares
from ligerdiag.fuzz.rows import JudgedProgram, load_known
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.sweep.campaign import describe_rate
from ligerdiag.sweep.cluster import open_cluster, require_extra, run_tasks
from ligerdiag.sweep.grid import compute_fingerprint
from ligerdiag.sweep.task import TaskDied, UnfitWorker
from ligerdiag.toolchains.toolchain_table import DEFAULT

PORTION = 12
"""Programs of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """A task: plain data."""

    key: str
    share: Share
    """Its seeds; the worker has a folder of its own."""
    fingerprint: str
    """sha256 of the ligerdiag that asks, and of the versions that it has."""
    toolchain: str = DEFAULT


def judge_on_cluster(share: Share, address: str, path: Path, tell: OnProgress) -> tuple[tuple[str, ...], float]:
    """Judges the share's programs by the workers of that scheduler, and appends a row for each to the file at `path`.

    Returns what went wrong, a line a cause, and the processor seconds of the workers. Raises InputError where there is no
    scheduler.
    """
    require_extra()
    path.parent.mkdir(parents=True, exist_ok=True)
    tasks, faults, seconds = plan_portions(share), dict[str, None](), 0.0
    with open_cluster(address, None) as client:
        started, done = time.monotonic(), 0
        for task, result in run_tasks(client, answer_portion, [(task, None) for task in tasks]):
            if isinstance(result, LigerdiagError):
                faults[str(result)] = None
            else:
                rows, cost = result
                for row in rows:
                    append_row(path, decode_record(JudgedProgram, row))
                seconds += cost
            done += len(task.share.seeds)
            said = describe_rate(done, len(share.seeds), time.monotonic() - started)
            tell(Progress(phase="judge", event="finished", done=done, total=len(share.seeds), case_id=said))
            if share.is_over:
                break
    return tuple(faults), seconds


def plan_portions(share: Share) -> Sequence[Portion]:
    """The share's seeds, a few for each task."""
    fingerprint = compute_fingerprint(DEFAULT)
    shares = [replace(share, directory="", seeds=seeds, until=None) for seeds in batched(share.seeds, PORTION)]
    keys = [sha256(repr((fingerprint, one)).encode()).hexdigest() for one in shares]
    return [Portion(key=key, share=one, fingerprint=fingerprint) for key, one in zip(keys, shares, strict=True)]


def answer_portion(task: Portion, words: None) -> tuple[list[object], float]:
    """On a worker: the rows of the task's programs, as JSON, and processor seconds. Raises UnfitWorker and TaskDied."""
    del words
    if compute_fingerprint(task.toolchain) != task.fingerprint:
        raise UnfitWorker(
            "a worker has another ligerdiag, or other versions, than whoever asks: install the same on both"
        )
    scratch, before = ScratchFolder("fuzz"), read_processor_seconds()
    try:
        share, path = replace(task.share, directory=str(scratch.path)), scratch.path / "programs.jsonl"
        faults = run_shares("ligerdiag.fuzz.campaign", [share], path, lambda _: None)
        rows = load_known(JudgedProgram, path)
        if faults and len(rows) < len(share.seeds):
            raise TaskDied(f"the process of a task ended: {faults[0]}")
        return [encode_record(row) for row in rows], read_processor_seconds() - before
    finally:
        scratch.remove()
