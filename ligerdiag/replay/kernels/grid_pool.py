"""Shares the programs of one large launch out over processes, which import the kernel by its launch record.

Distributes the programs of one large launch over processes.

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
import importlib.util
import mmap
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ligerdiag.artifacts.call_records import KernelLaunch, compute_source_sha256
from ligerdiag.compile.cases.function_file import list_own_folders
from ligerdiag.ending import die_with_parent
from ligerdiag.errors import describe_fault
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.kernels.grid import count_programs, run_programs

INTERPRET = "TRITON_INTERPRET"
"""Must be 1 in the environment before triton is imported: kernels are then made for the interpreter."""


def find_kernel(launch: KernelLaunch) -> Any:
    """Returns the kernel, a `triton.runtime.interpreter.InterpretedFunction`; NotCoveredError when it is not
    available."""
    if launch.trouble:
        raise NotCoveredError(f"kernel `{launch.kernel}`: {launch.trouble}")
    if os.environ.get(INTERPRET) != "1":
        raise NotCoveredError(f"kernel `{launch.kernel}`: {INTERPRET}=1 is not in the environment")
    found: Any = _find_module(launch)
    for part in launch.qualname.split("."):
        found = getattr(found, part, None)
    while found is not None and not _is_interpreted(found):
        found = getattr(found, "fn", None)
    if found is None:
        raise NotCoveredError(
            f"kernel `{launch.kernel}`: `{launch.module}` has no interpreted kernel under the name `{launch.qualname}`"
        )
    if compute_source_sha256(found.fn) != launch.source:
        raise NotCoveredError(f"kernel `{launch.kernel}`: `{launch.file}` is not what was compiled any more")
    return found


def _is_interpreted(value: object) -> bool:
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    return isinstance(value, interpreter.InterpretedFunction)


def _find_module(launch: KernelLaunch) -> Any:
    """Finds the module by its name; by its file if the name is not found, as for a case's own file."""
    if launch.module in sys.modules:
        return sys.modules[launch.module]
    try:
        if importlib.util.find_spec(launch.module) is not None:
            return importlib.import_module(launch.module)
    except ModuleNotFoundError:
        pass
    except Exception as fault:
        raise _not_importable(launch, describe_fault(fault)) from fault
    return _import_file(launch)


def _import_file(launch: KernelLaunch) -> Any:
    spec = importlib.util.spec_from_file_location(launch.module, launch.file)
    if spec is None or spec.loader is None or not Path(launch.file).is_file():
        raise _not_importable(launch, f"no file `{launch.file}`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[launch.module] = module
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        del sys.modules[launch.module]
        raise _not_importable(launch, describe_fault(fault)) from fault
    return module


def _not_importable(launch: KernelLaunch, reason: str) -> NotCoveredError:
    return NotCoveredError(f"kernel `{launch.kernel}`: `{launch.module}` does not import: {reason}")


ALIGNMENT = 64
"""Bytes; also NumPy's own allocations are aligned less or as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The place of each buffer in one block of bytes that holds them all."""

    offsets: tuple[int, ...]
    size: int
    """Bytes of the block."""


def do_share(one: Array, other: Array) -> bool:
    """Returns whether two flat, contiguous arrays have a byte in common."""
    start, begin = one.ctypes.data, other.ctypes.data
    return start < begin + other.nbytes and begin < start + one.nbytes


def compute_layout(buffers: Sequence[Array]) -> Layout:
    """Returns a block in which the buffers overlap as they do where they are, and only so."""
    order = sorted(range(len(buffers)), key=lambda number: buffers[number].ctypes.data)
    offsets, base, end, size = [0] * len(buffers), 0, 0, 0
    for number in order:
        start = buffers[number].ctypes.data
        if start >= end:
            base = -(-size // ALIGNMENT) * ALIGNMENT - start
        end = max(end, start + buffers[number].nbytes)
        offsets[number] = base + start
        size = max(size, offsets[number] + buffers[number].nbytes)
    return Layout(offsets=tuple(offsets), size=size)


def view_block(block: Array, layout: Layout, buffers: Sequence[Array]) -> tuple[Array, ...]:
    """Arrays like the buffers in the block, u8[size]."""
    return tuple(
        block[offset : offset + buffer.nbytes].view(buffer.dtype)
        for offset, buffer in zip(layout.offsets, buffers, strict=True)
    )


def copy_buffers(buffers: Sequence[Array], allocate: Callable[[int], Array] | None = None) -> tuple[Array, ...]:
    """Copies that share their bytes as the buffers do; `allocate` gives a u8 array of that many bytes."""
    layout = compute_layout(buffers)
    block = np.empty(layout.size, np.uint8) if allocate is None else allocate(layout.size)
    copies = view_block(block, layout, buffers)
    for copy, buffer in zip(copies, buffers, strict=True):
        copy[...] = buffer
    return copies


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
    hidden = set(list_own_folders()) - {str(Path(__file__).resolve().parents[3])}
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
