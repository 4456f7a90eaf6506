"""Runs the processes of a campaign, each of which judges a part of the programs.

A process reads its Workload as a line on standard input, judges one program after another, and appends a row for each
to the campaign's file. It begins no program after the workload's `until`, and it ends with its parent. SIGTERM ends it
sooner, and loses the programs in progress. A process that ends otherwise leaves the rest of its workload to the next
run. All of them fork their workers from the same processes, which have imported JAX.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import encode_record, parse_record
from ligerdiag.ending import die_with_parent, watch_for_end, work_until_ended
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.workers.template_server import keep_templates

_ROOT = Path(__file__).parents[2]
_SPARE_SECONDS = 90.0
"""Added to `until` for programs that have begun by then; after that the process is ended."""
_END_SECONDS = 20.0
_STEP = 0.25
_TAIL = 300
"""Characters from the end of a process's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The programs that one process judges, with its options."""

    directory: str
    """Of the campaign."""
    seeds: tuple[int, ...]
    target: str
    timeout: float
    """Seconds for one program."""
    until: float | None = None
    """No program begins after that, in seconds since the epoch; None for no limit."""
    orders: int = 0
    """Number of other legal orders in which each schedule is replayed."""
    gpus: str = ""
    """CUDA_VISIBLE_DEVICES; empty for a workload that needs none."""
    rows: str = ""
    """Path of the file for the rows, if the kind of workload has no file of its own in the directory."""

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.time() >= self.until


def count_lines(path: Path) -> int:
    """Returns the number of complete rows in the file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run_workloads(
    module: str, workloads: Sequence[Workload], path: Path, report_progress: OnProgress
) -> tuple[str, ...]:
    """Runs `python -m module` for each workload; returns a line for each process that failed.

    path: the file to which the processes append. An exception, such as the end of the run, ends them.
    """
    before, reported, total = count_lines(path), -1, sum(len(workload.seeds) for workload in workloads)

    def watch() -> None:
        nonlocal reported
        done = max(0, count_lines(path) - before)
        if done != reported:
            reported = done
            report_progress(Progress(phase="judge", event="finished", done=done, total=total))

    with _open_logs() as folder, keep_templates():
        running: list[tuple[subprocess.Popen[bytes], Path]] = []
        try:
            for number, workload in enumerate(workloads):
                log = folder / f"{number}.log"
                with log.open("wb") as said:
                    running.append((_start(module, workload, said), log))
            untils = [workload.until for workload in workloads if workload.until is not None]
            last = max(untils) + _SPARE_SECONDS if untils else float("inf")
            while any(process.poll() is None for process, _ in running) and time.time() < last:
                watch()
                time.sleep(_STEP)
        finally:
            _end([process for process, _ in running])
            watch()
        return tuple(_describe_end(process, log) for process, log in running if process.returncode != 0)


def serve_workload(judge: Callable[[Workload], None]) -> None:
    """Judges the workload in the first line of standard input; called by the process of a workload."""
    die_with_parent(os.getppid())
    workload = parse_record(Workload, sys.stdin.readline())
    with watch_for_end(), work_until_ended():
        judge(workload)


def append_row(path: Path, row: object) -> None:
    """Appends a record as a line, in one write, so that rows of several processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(encode_record(row)) + "\n").encode())
    finally:
        os.close(file)


def read_processor_seconds() -> float:
    """Returns the processor time of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


@contextmanager
def _open_logs() -> Generator[Path]:
    folder = ScratchFolder("fuzz")
    try:
        yield folder.path
    finally:
        folder.remove()


def _start(module: str, workload: Workload, said: IO[bytes]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=_ROOT,  # from where `tools` is imported
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,  # Ctrl-C ends this process, which ends its children
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as channel:
        channel.write((json.dumps(encode_record(workload)) + "\n").encode())
    return process


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    until = time.monotonic() + _END_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _describe_end(process: subprocess.Popen[bytes], log: Path) -> str:
    last = log.read_text(encoding="utf-8", errors="replace").strip()[-_TAIL:]
    code = process.returncode
    return f"a process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}: {last or 'no output'}"
