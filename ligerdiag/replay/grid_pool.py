"""Distributes the programs of one large launch over processes.

1. The buffers are copied into anonymous memory (`memfd_create`) that no name leads to: a process of the pool opens it
   through /proc of the parent, which needs nothing but the same user. The kernel frees it with the last process that
   holds it, however that ended; nothing can be left behind.
2. The caller's buffers change when every part is done, or not at all.
3. A program may see what programs of another part have written, as on a GPU. A kernel that uses atomics is not split:
   each process would lock only for itself.
4. A process of the pool ends with its parent.
5. It starts without the paths of the user's project, which `multiprocessing` would hand on, and gets them when numpy,
   triton and ligerdiag are imported: a `signal.py` or `numpy` of the project hides none of what these need.
"""

import importlib
import mmap
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ligerdiag.compile.importable import list_own_folders
from ligerdiag.compile.kernel_launch import KernelLaunch
from ligerdiag.compile.parent_process import die_with_parent
from ligerdiag.replay.grid import count_programs, run_programs
from ligerdiag.replay.kernel_source import find_kernel
from ligerdiag.replay.opcodes.scope import Array, NotCoveredError
from ligerdiag.replay.sharing import Layout, compute_layout, view_block

PARTS_PER_PROCESS = 4
"""Programs differ in what they cost; a part that is done early makes room for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A process' part of a launch."""

    launch: KernelLaunch
    memory: str
    """Path of the shared memory."""
    layout: Layout
    buffers: tuple[tuple[int, Any], ...]
    """(elements, dtype) of each."""
    programs: range
    round_to_nearest: bool


@dataclass(slots=True, eq=False)
class GridPool:
    """Processes that run parts of a grid; they are started when the first launch needs them."""

    processes: int
    _executor: ProcessPoolExecutor | None = field(default=None)

    def run(self, launch: KernelLaunch, buffers: Sequence[Array], *, round_to_nearest: bool) -> None:
        """Runs all programs of the launch. Raises AtomicsError, the buffers as they were, for a kernel with atomics."""
        layout = compute_layout(buffers)
        descriptor = os.memfd_create("ligerdiag", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, max(layout.size, 1))
            views = view_block(np.frombuffer(mmap.mmap(descriptor, 0), np.uint8), layout, buffers)
            for view, buffer in zip(views, buffers, strict=True):
                view[...] = buffer
            part = _Part(
                launch=launch,
                memory=f"/proc/{os.getpid()}/fd/{descriptor}",
                layout=layout,
                buffers=tuple((buffer.size, buffer.dtype) for buffer in buffers),
                programs=range(0),
                round_to_nearest=round_to_nearest,
            )
            self._run_parts(part)
        finally:
            os.close(descriptor)
        for view, buffer in zip(views, buffers, strict=True):
            buffer[...] = view

    def close(self) -> None:
        """Ends the processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _run_parts(self, whole: _Part) -> None:
        count = count_programs(whole.launch)
        parts = min(count, self.processes * PARTS_PER_PROCESS)
        bounds = [count * number // parts for number in range(parts + 1)]
        path = tuple(sys.path)
        try:
            with _hide_project():
                executor = self._start(path)
                futures = [
                    executor.submit(_run_part, replace(whole, programs=range(start, stop)))
                    for start, stop in pairwise(bounds)
                ]
            self._gather(futures)
        except BrokenProcessPool as error:
            self.close()
            raise NotCoveredError(f"kernel `{whole.launch.kernel}`: a process that ran a part of it died") from error

    def _gather(self, futures: Sequence[Future[None]]) -> None:
        """Waits for all of them: what one is still writing to must not be given away."""
        try:
            for future in futures:
                future.result()
        finally:
            wait([future for future in futures if not future.cancel()])

    def _start(self, path: tuple[str, ...]) -> ProcessPoolExecutor:
        """path: where the processes look for the project's modules, once they run."""
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self.processes,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_process,
                initargs=(os.getpid(), path),
            )
        return self._executor


@contextmanager
def _hide_project() -> Generator[None]:
    """Hides the user's project: processes that start in here get no path of it, except ligerdiag's own folder; see
    5."""
    path, given = list(sys.path), os.environ.pop("PYTHONPATH", None)
    hidden = set(list_own_folders()) - {str(Path(__file__).resolve().parents[2])}
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) not in hidden]
    try:
        yield
    finally:
        sys.path[:] = path
        if given is not None:
            os.environ["PYTHONPATH"] = given


def _start_process(parent: int, path: tuple[str, ...]) -> None:
    die_with_parent(parent)
    threading.Thread(target=_follow_parent, args=(parent,), daemon=True).start()
    importlib.import_module("triton.runtime.interpreter")
    sys.path[:] = path
    sys.dont_write_bytecode = True


def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _run_part(part: _Part) -> None:
    with open(part.memory, "r+b") as file:
        block = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    buffers = [
        block[offset : offset + size * dtype.itemsize].view(dtype)
        for offset, (size, dtype) in zip(part.layout.offsets, part.buffers, strict=True)
    ]
    run_programs(
        part.launch,
        find_kernel(part.launch),
        buffers,
        part.programs,
        round_to_nearest=part.round_to_nearest,
        atomics=False,
    )
