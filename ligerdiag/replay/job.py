"""The messages between ligerdiag and its replay workers."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ligerdiag.compile.fields import Json, read_bool, read_int, read_object, read_str, read_str_map
from ligerdiag.compile.job import Job, Source, parse_answer, parse_source, render_request
from ligerdiag.outcomes import Replay
from ligerdiag.replay.record import parse_replay, render_replay


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Asks for the numbers of one artifact."""

    source: Source
    case_id: str
    artifact: str
    """Its directory."""
    processes: int
    """Number of processes that may share the programs of a kernel's grid."""
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
        processes=read_int(request, "processes"),
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
