"""Asks a worker for the program of a case as a list of equations, and for the text of a compiled module."""

from dataclasses import dataclass

from ligerdiag.codec import Json, read_record, read_str
from ligerdiag.model.jobs import CaseSpec, Job, Source, make_job
from ligerdiag.reduce.reduced_program import Program
from ligerdiag.toolchains.gpu_targets import Target

TRACE_WORKER = "ligerdiag.reduce.trace_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A request to a worker to trace a case for a target."""

    source: Source
    case_id: str
    description: str
    compute_capability: int
    sizes: tuple[tuple[int, int], ...] = ()
    """Pairs of an old and a new size: each dimension of an argument that has the old size gets the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAnswer:
    """The program that the worker traced, as a list of equations."""

    program: Program


def make_trace_job(case: CaseSpec, target: Target, sizes: tuple[tuple[int, int], ...] = ()) -> Job[TraceAnswer]:
    """Returns a job in which a worker traces a case. sizes: as in `TraceRequest`."""
    request = TraceRequest(
        source=case.source,
        case_id=case.id,
        description=target.description,
        compute_capability=target.compute_capability,
        sizes=sizes,
    )
    return make_job(request, TraceAnswer, case.source, f"the trace of case `{case.id}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class HloTextRequest:
    """A request to a worker for the text of a module."""

    path: str
    """Path of the file with the HloProto."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HloTextAnswer:
    """The text of a module, as XLA prints it."""

    text: str


def make_hlo_text_job(path: str, source: Source) -> Job[HloTextAnswer]:
    """Returns a job in which a worker prints a module as text.

    source: the file, module or live function that the worker serves.
    """
    return make_job(HloTextRequest(path=path), HloTextAnswer, source, f"the text of `{path}`")


def parse_reduce_request(job: Json) -> TraceRequest | HloTextRequest:
    """Returns the request in the JSON of a job, which the worker reads."""
    kind = HloTextRequest if read_str(job, "job") == HloTextRequest.__name__ else TraceRequest
    return read_record(kind, job, "request")
