"""A campaign on many cores: processes of which each judges a share of the programs.

1. A process gets its Share as a line on standard input, judges its programs one after another, and appends a row to the
   campaign's file for each: one write, so that rows of several processes do not mix.
2. It begins nothing after the share's `until`. SIGTERM ends it sooner, without what it was at. It ends with its parent.
3. One that ends otherwise costs what was left of its share, which the next run of the campaign does.
4. All of them fork their workers from the same processes, which have imported JAX.
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

_SPARE_SECONDS = 90.0
"""After `until`, for what was begun before; it is ended then."""
_END_SECONDS = 20.0
_STEP = 0.25
_TAIL = 300
"""Letters of what a process said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process has to do."""

    directory: str
    """The campaign's."""
    seeds: tuple[int, ...]
    target: str
    timeout: float
    """Seconds for one program."""
    until: float | None = None
    """Nothing is begun then; seconds since the epoch."""
    orders: int = 0
    """Other legal orders of each schedule in which the replay runs it."""
    gpus: str = ""
    """CUDA_VISIBLE_DEVICES; empty for a share that needs none."""

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.time() >= self.until


def count_lines(path: Path) -> int:
    """Returns the number of rows that are written to their end."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run_shares(module: str, shares: Sequence[Share], path: Path, tell: OnProgress) -> tuple[str, ...]:
    """Runs `python -m module` for each share; returns what went wrong, a line a process.

    path: of the file that they append to. An exception, such as the end of the run, ends them.
    """
    before, told, total = count_lines(path), -1, sum(len(share.seeds) for share in shares)

    def watch() -> None:
        nonlocal told
        done = max(0, count_lines(path) - before)
        if done != told:
            told = done
            tell(Progress(phase="judge", event="finished", done=done, total=total))

    with _open_logs() as folder, keep_templates():
        running: list[tuple[subprocess.Popen[bytes], Path]] = []
        try:
            for number, share in enumerate(shares):
                log = folder / f"{number}.log"
                with log.open("wb") as said:
                    running.append((_start(module, share, said), log))
            untils = [share.until for share in shares if share.until is not None]
            last = max(untils) + _SPARE_SECONDS if untils else float("inf")
            while any(process.poll() is None for process, _ in running) and time.time() < last:
                watch()
                time.sleep(_STEP)
        finally:
            _end([process for process, _ in running])
            watch()
        return tuple(_describe_end(process, log) for process, log in running if process.returncode != 0)


def serve_share(judge: Callable[[Share], None]) -> None:
    """The process of a share: judges what standard input says."""
    die_with_parent(os.getppid())
    share = parse_record(Share, sys.stdin.readline())
    with watch_for_end(), work_until_ended():
        judge(share)


def append_row(path: Path, row: object) -> None:
    """Appends a record as a line; see 1."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(encode_record(row)) + "\n").encode())
    finally:
        os.close(file)


def read_processor_seconds() -> float:
    """Of this process and of all that it started and that have ended."""
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


def _start(module: str, share: Share, said: IO[bytes]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,  # Ctrl-C is for us
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as channel:
        channel.write((json.dumps(encode_record(share)) + "\n").encode())
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
    return f"a process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}: {last or 'no word'}"
