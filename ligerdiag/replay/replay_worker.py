"""The replay worker, `python -m ligerdiag.replay.replay_worker`: its requests and answers, and the bounds of a replay.

The worker replays one artifact after another on the CPU. Its messages use Python's JSON, which has `NaN` and
`Infinity`; reports that other programs read never contain these two.
"""

import ctypes
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from ligerdiag.codec import Json, decode_record, encode_record, read_record, read_str
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.case import Case
from ligerdiag.model.findings import OpaqueReplay, OutputNumbers, Replay, ReplayState
from ligerdiag.model.jobs import Job, Source, WritePlace, make_job, render_answer
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.text import render_bytes
from ligerdiag.workers.loop import Answerer, serve

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""
_MEMINFO = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")
FULL_MEMORY = 16 << 30
"""Bytes that a replay without bounds (`--full`) may take, unless `Bounds.memory` allows more."""
ALONE_SECONDS = 10.0
"""Estimated seconds on one core above which a replay runs alone, on all cores."""
WORKER_BYTES = 1 << 30
"""Bytes that a worker takes in addition to the replayed values: its imports, and XLA's buffers for running the case's
reference, a JAX function.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The largest estimated time and memory with which a replay may run."""

    seconds: float = 10.0
    """The most estimated seconds for one case."""
    memory: int = 4 << 30
    """The most estimated bytes for one case."""
    full: bool = False
    """Whether to ignore the bound `seconds`, and to allow 16 GiB of memory, or `memory` bytes if that is more."""


def refuse(seconds: float, size: int, bounds: Bounds, available: int) -> Replay | None:
    """Returns a record that says why a replay with this estimate is too large. Returns None if the replay may run.

    seconds, size: the estimated seconds and bytes. available: bytes of memory that the machine has left.
    """
    memory = max(bounds.memory, FULL_MEMORY) if bounds.full else bounds.memory
    if size + WORKER_BYTES > available:
        reason = f"estimated {render_bytes(size)}, more than the {render_bytes(available)} that this machine has left"
    elif size > memory and bounds.full:
        reason = f"estimated {render_bytes(size)}, more than {render_bytes(memory)}: `--replay-memory` allows more"
    elif not bounds.full and (seconds > bounds.seconds or size > memory):
        limits = f"more than {render_seconds(bounds.seconds)} or {render_bytes(memory)}"
        reason = f"estimated {render_seconds(seconds)} and {render_bytes(size)}, {limits}: `--full` replays it"
    else:
        return None
    return Replay(state=ReplayState.TOO_LARGE, reason=reason, estimated_seconds=seconds, estimated_bytes=size)


def compute_available_bytes(meminfo: Path = _MEMINFO, group: Path = _CONTROL_GROUP) -> int:
    """Returns the bytes of memory that are free. In a container with a limit, this is the rest of the limit if it is
    less than the operating system's estimate.

    meminfo: Linux's file with the estimate. group: the folder of the control group with the limit, which need not
    exist.
    """
    found = [_read_meminfo(meminfo), *_read_group(group)]
    return max(0, min(found))


def _read_meminfo(path: Path) -> int:
    for line in path.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    raise OSError(f"`{path}` has no field `MemAvailable`")


def _read_group(folder: Path) -> list[int]:
    """Returns the free bytes below the memory limit of the control group, as a list of one number; an empty list if
    there is no limit.
    """
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return []
    if not limit.isdecimal():
        return []
    return [int(limit) - used + int(statistics.get("inactive_file", 0))]


def count_workers(sizes: Sequence[int], cores: int, available: int) -> int:
    """Returns how many replays may run at once, from 1 to `cores`. The memory must suffice for the largest replays at
    once.

    sizes: the estimated bytes of each replay. available: bytes of memory that the machine has left.
    """
    total = workers = 0
    for size in sorted(sizes, reverse=True)[:cores]:
        total += size + WORKER_BYTES
        if total > available:
            break
        workers += 1
    return max(1, workers)


def render_seconds(seconds: float) -> str:
    """Renders a duration such as `0.5 s` or `3.2 h`."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def render_replay(replay: Replay) -> dict[str, object]:
    """Returns the record of a replay as a JSON object."""
    return encode_record(replay)


def parse_replay(fields: Json) -> Replay:
    """Parses the record of a replay from a JSON object. Raises FieldError if a field is missing or has another type."""
    return decode_record(Replay, fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """A request to a replay worker: replay one artifact."""

    source: Source
    case_id: str
    artifact: str
    """Directory of the artifact."""
    rows: bool
    """Whether to count the rows of each output that equal the intended values (fresh), and those that equal the stale
    values, which result if kernels leave their operands unchanged.
    """
    cut: tuple[str, ...] = ()
    """Names of the program's loops to cut short."""
    orders: int = 0
    """Number of other legal orders of its instructions in which the schedule runs, too."""
    orders_seconds: float = inf
    """Seconds after which the replay runs the schedule in no further order."""
    modules: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Maps the sha256 of a kernel's Triton IR to a file with its parsed operations; see `KernelRunner`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnswer:
    """The record of a replay, and the files on which it depends."""

    replay: Replay
    dependencies: Mapping[str, str]
    """Maps each imported file of the project to its sha256."""


def make_replay_job(request: ReplayRequest, timeout: float) -> Job[ReplayAnswer]:
    """Returns a job in which a replay worker answers the request within `timeout` seconds."""
    return make_job(request, ReplayAnswer, request.source, "the replay", timeout=timeout)


def parse_replay_request(job: Json) -> ReplayRequest:
    """Parses the request from a job that a replay worker has received."""
    return read_record(ReplayRequest, job, "request")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueRequest:
    """A request to a replay worker: replay one artifact with opaque functions in place of its custom calls. An opaque
    function is a stand-in that reads and writes the same buffers as the call.
    """

    source: Source
    case_id: str
    artifact: str
    """Directory of the artifact."""
    calls: OpaqueCalls
    cut: tuple[str, ...] = ()
    """Names of the program's loops to cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueAnswer:
    """The record of a replay with opaque functions in place of custom calls. Also names the files on which the record
    depends. An opaque function is a stand-in that reads and writes the same buffers as the call.
    """

    replay: OpaqueReplay
    dependencies: Mapping[str, str]
    """Maps each imported file of the project to its sha256."""


def make_opaque_job(request: OpaqueRequest, timeout: float) -> Job[OpaqueAnswer]:
    """Returns a job in which a replay worker answers the request within `timeout` seconds."""
    return make_job(request, OpaqueAnswer, request.source, "the replay with opaque functions", timeout=timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialRequest:
    """Request to compare outputs of one artifact with predictions in which single hidden writes are missed, and all others
    seen (see `runs.partial_run`).
    """

    source: Source
    case_id: str
    artifact: str
    """Directory of the artifact."""
    lost: Mapping[str, tuple[WritePlace, ...]]
    """Maps the name of each output to the hidden writes that its prediction misses."""
    modules: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """As in `ReplayRequest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialAnswer:
    """The numbers of the outputs of a `PartialRequest`, and the files on which they depend."""

    outputs: Mapping[str, OutputNumbers]
    dependencies: Mapping[str, str]
    """Maps each imported file of the project to its sha256."""


def make_partial_job(request: PartialRequest, timeout: float) -> Job[PartialAnswer]:
    """Returns a job that makes a replay worker answer the request within `timeout` seconds."""
    return make_job(request, PartialAnswer, request.source, "the comparison of single writes", timeout=timeout)


def _keep_freed_memory() -> None:
    """Makes glibc keep the memory of freed arrays for later ones; does nothing with another C library.

    By default glibc gives the memory of each large freed array back at once, and the operating system has to clear
    pages for the next array: a fifth of the time of a large case, more on a virtual machine.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)


def _replay_opaquely(request: OpaqueRequest, find_arguments: Callable[[], Sequence[Any]]) -> OpaqueReplay:
    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.errors import describe_fault
    from ligerdiag.replay.opaque_runs.opaque_run import replay_opaquely
    from ligerdiag.replay.ops.scope import NotCoveredError
    from ligerdiag.replay.runs.case_run import load_programs
    from ligerdiag.replay.runs.loop_cuts import cut_named_loops

    try:
        programs = load_programs(load_artifact(Path(request.artifact)))
        cuts = cut_named_loops(programs.program, programs.optimized, request.cut)
        return replay_opaquely(programs, find_arguments(), request.calls, cuts)
    except NotCoveredError as error:
        return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=str(error), kernels=request.calls.kernels)
    except (LigerdiagError, MemoryError):
        raise
    except Exception as fault:
        traceback.print_exception(fault)
        return OpaqueReplay(state=ReplayState.FAILED, reason=describe_fault(fault), kernels=request.calls.kernels)


def prepare() -> Answerer:
    """Imports jax, triton and numpy, and returns the function that answers replay requests. No file of the user's is
    imported before them (see `compile.cases.loader`).
    """
    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.loader import CaseLoader, compute_draws
    from ligerdiag.compile.lowering.lowered_case import import_kernel_libraries
    from ligerdiag.errors import describe_fault
    from ligerdiag.replay.ops.scope import NotCoveredError
    from ligerdiag.replay.runs.case_inputs import compute_case_inputs
    from ligerdiag.replay.runs.case_run import CaseInputs, load_programs, replay_case
    from ligerdiag.replay.runs.kernels import KernelRunner
    from ligerdiag.replay.runs.partial_run import compare_partly

    import_kernel_libraries()
    _keep_freed_memory()
    loader = CaseLoader(once=True)
    last: dict[str, CaseInputs] = {}

    def find_inputs(case: Case, source: Source) -> CaseInputs:
        draws = compute_draws(case, source.pickled or str(source), is_live=bool(source.pickled))
        if draws not in last:
            last.clear()
            last[draws] = compute_case_inputs(case)
        return last[draws]

    def answer_opaquely(request: OpaqueRequest) -> str:
        case = loader.find_case(request.source, request.case_id)
        replay = _replay_opaquely(request, lambda: find_inputs(case, request.source).arguments)
        return render_answer(OpaqueAnswer(replay=replay, dependencies=loader.compute_dependencies()))

    def answer_partly(request: PartialRequest) -> str:
        case = loader.find_case(request.source, request.case_id)
        inputs = find_inputs(case, request.source)
        outputs = compare_partly(
            load_programs(load_artifact(Path(request.artifact))),
            inputs.arguments,
            KernelRunner(modules=request.modules),
            {name: frozenset(writes) for name, writes in request.lost.items()},
            inputs.products.multiply,
        )
        return render_answer(PartialAnswer(outputs=outputs, dependencies=loader.compute_dependencies()))

    def answer(job: Json, log: Path) -> str:
        del log
        if read_str(job, "job") == OpaqueRequest.__name__:
            return answer_opaquely(read_record(OpaqueRequest, job, "request"))
        if read_str(job, "job") == PartialRequest.__name__:
            return answer_partly(read_record(PartialRequest, job, "request"))
        request = parse_replay_request(job)
        case = loader.find_case(request.source, request.case_id)
        artifact = load_artifact(Path(request.artifact))
        try:
            inputs = find_inputs(case, request.source)
            replay = replay_case(
                artifact,
                inputs,
                rows=request.rows,
                cut=request.cut,
                modules=request.modules,
                orders=request.orders,
                orders_seconds=request.orders_seconds,
            )
        except NotCoveredError as error:
            replay = Replay(state=ReplayState.NOT_COVERED, reason=str(error))
        except (LigerdiagError, MemoryError):
            last.clear()  # the next case with these draws computes them again and reports its own error
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            replay = Replay(state=ReplayState.FAILED, reason=describe_fault(fault))
        return render_answer(ReplayAnswer(replay=replay, dependencies=loader.compute_dependencies()))

    return answer


if __name__ == "__main__":
    serve(prepare)
