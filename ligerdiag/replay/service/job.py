"""Records of replay: which artifacts are replayed, what crosses the boundary to a worker, and what the cache keeps, as
JSON.

A replay's record as JSON and back: what a worker answers and what the cache keeps. NaN and infinities are kept.

Python's own JSON is read and written here, which knows `NaN` and `Infinity`; a report for others never holds them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ligerdiag.codec import (
    FieldError,
    Json,
    as_int,
    as_list,
    as_object,
    as_str,
    read_bool,
    read_float,
    read_int,
    read_list,
    read_object,
    read_str,
    read_str_map,
    read_word,
)
from ligerdiag.model.findings import Attribution, LaunchNumbers, OutputNumbers, Replay, ReplayState
from ligerdiag.model.jobs import Job, Source, parse_answer, parse_source, render_request

FULL_MEMORY = 16 << 30
"""Bytes that a replay may take when the bounds are lifted."""
ALONE_SECONDS = 10.0
"""A replay that is estimated to take one core longer than this runs by itself, on all cores."""
WORKER_BYTES = 1 << 30
"""The memory of a worker beside the values that it replays: its imports, and XLA's own buffers for the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that a replay may cost."""

    seconds: float = 10.0
    """Estimated seconds for one case."""
    memory: int = 4 << 30
    """Estimated bytes for one case."""
    full: bool = False
    """Lifts both bounds; memory then to 16 GiB, or to `memory` when that is more."""


def refuse(seconds: float, size: int, bounds: Bounds, available: int) -> Replay | None:
    """Returns why an artifact with that estimate is not replayed; None when it is. `size` and `available` in bytes."""
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


def count_workers(sizes: Sequence[int], cores: int, available: int) -> int:
    """Returns how many replays of these sizes in bytes fit beside each other, in any combination; at least one."""
    total = workers = 0
    for size in sorted(sizes, reverse=True)[:cores]:
        total += size + WORKER_BYTES
        if total > available:
            break
        workers += 1
    return max(1, workers)


def render_bytes(size: int) -> str:
    """Such as `4 GiB` or `512 MiB`."""
    if size < 1 << 30:
        return f"{size / (1 << 20):.0f} MiB"
    return f"{size / (1 << 30):.3g} GiB"


def render_seconds(seconds: float) -> str:
    """Such as `0.5 s` or `3.2 h`."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def render_replay(replay: Replay) -> dict[str, object]:
    """Returns the record as a JSON object."""
    return asdict(replay)


def parse_replay(fields: Json) -> Replay:
    """Parses the record from a JSON object; raises FieldError when it is none. `cached` is false: the reader of a cache
    sets it."""
    return Replay(
        state=read_word(ReplayState, fields, "state"),
        reason=read_str(fields, "reason"),
        outputs=_read_map(fields, "outputs", _parse_output),
        reference=_read_map(fields, "reference", _as_float),
        reference_tolerance=_read_map(fields, "reference_tolerance", _as_float),
        changed_inputs=_read_map(fields, "changed_inputs", _as_float),
        second_run=_read_map(fields, "second_run", _as_float),
        launches=tuple(_parse_launch(item) for item in read_list(fields, "launches")),
        unreached=tuple(as_str(item, "unreached") for item in read_list(fields, "unreached")),
        seconds=read_float(fields, "seconds"),
        estimated_seconds=read_float(fields, "estimated_seconds"),
        estimated_bytes=read_int(fields, "estimated_bytes"),
    )


def _parse_output(value: object, name: str) -> OutputNumbers:
    fields = as_object(value, name)
    return OutputNumbers(
        attribution=read_word(Attribution, fields, "attribution"),
        error=read_float(fields, "error"),
        stale_error=read_float(fields, "stale_error"),
        distance=read_float(fields, "distance"),
        tolerance=read_float(fields, "tolerance"),
        rows_fresh=read_int(fields, "rows_fresh"),
        rows_stale=read_int(fields, "rows_stale"),
        rows=read_int(fields, "rows"),
    )


def _parse_launch(value: object) -> LaunchNumbers:
    fields = as_object(value, "launches")
    return LaunchNumbers(
        kernel=read_str(fields, "kernel"),
        instruction=read_str(fields, "instruction"),
        launches=read_int(fields, "launches"),
        checked=read_int(fields, "checked"),
        unwritten=_read_numbered(fields, "unwritten", _as_pair),
        racing=_read_numbered(fields, "racing", _as_float),
    )


def _read_map[T](fields: Json, name: str, parse: Callable[[object, str], T]) -> dict[str, T]:
    return {key: parse(value, name) for key, value in read_object(fields, name).items()}


def _read_numbered[T](fields: Json, name: str, parse: Callable[[object, str], T]) -> Mapping[int, T]:
    """JSON has no other keys than strings."""
    found: dict[int, T] = {}
    for key, value in read_object(fields, name).items():
        if not key.isdecimal():
            raise FieldError(f"expected numbers as keys of `{name}` but got `{key:.60}`")
        found[int(key)] = parse(value, name)
    return found


def _as_float(value: object, name: str) -> float:
    return read_float({name: value}, name)


def _as_pair(value: object, name: str) -> tuple[int, int]:
    items = as_list(value, name)
    if len(items) != 2:
        raise FieldError(f"expected two integers for `{name}` but got {value!r:.60}")
    return as_int(items[0], name), as_int(items[1], name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Asks for the numbers of one artifact."""

    source: Source
    case_id: str
    artifact: str
    """Its directory."""
    rows: bool
    """Whether fresh and stale rows are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnswer:
    """The numbers, and what they were computed from."""

    replay: Replay
    dependencies: Mapping[str, str]
    """Files of the project that were imported, to their sha256."""


def make_replay_job(request: ReplayRequest, timeout: float) -> Job[ReplayAnswer]:
    """Returns the job that asks a replay worker; `timeout` in seconds."""
    return Job(
        source=request.source,
        name="the replay",
        render=lambda log: render_request(type(request).__name__, asdict(request), log),
        parse=lambda line: _parse_answer(parse_answer(line)),
        timeout=timeout,
    )


def parse_replay_request(job: Json) -> ReplayRequest:
    """Returns the request of a replay worker's job."""
    request = read_object(job, "request")
    return ReplayRequest(
        source=parse_source(read_object(request, "source")),
        case_id=read_str(request, "case_id"),
        artifact=read_str(request, "artifact"),
        rows=read_bool(request, "rows"),
    )


def render_replay_answer(answer: ReplayAnswer) -> str:
    """Returns one line for the parent."""
    fields = {"replay": render_replay(answer.replay), "dependencies": dict(answer.dependencies)}
    return json.dumps({"answer": fields}) + "\n"


def _parse_answer(answer: Json) -> ReplayAnswer:
    return ReplayAnswer(
        replay=parse_replay(read_object(answer, "replay")), dependencies=read_str_map(answer, "dependencies")
    )
