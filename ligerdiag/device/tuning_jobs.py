"""Messages between ligerdiag and the worker that records the choices of XLA's autotuner on this machine's GPUs."""

from dataclasses import dataclass

from ligerdiag.codec import Json, read_record
from ligerdiag.model.jobs import CompileRequest, Job, make_job


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """A request to compile a case with autotuning for the GPUs of this machine. The answer is a file with XLA's
    choices.
    """

    compile: CompileRequest
    """The part of the request about the compile. Its `description` is empty, because XLA queries the devices."""
    results: str
    """Path of the file that XLA writes: all choices that it has made in the worker's process so far."""
    earlier: str
    """Path of a file with earlier choices, which XLA takes over so that one instruction is not tuned twice; empty if
    there is none. XLA reads it only in the first compile of the worker's process.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningAnswer:
    """The answer of the tuning worker: the result of compiling a case with autotuning."""

    key: str
    """Key under which the cache has the artifact of the program that was tuned."""
    device: str
    """The vendor's name of the GPU."""


def make_tuning_job(request: TuningRequest, timeout: float) -> Job[TuningAnswer]:
    """Returns the job that sends this request to a tuning worker.

    timeout: in seconds.
    """
    source, name = request.compile.source, f"the tuning of case `{request.compile.case_id}`"
    return make_job(request, TuningAnswer, source, name, timeout=timeout, leftovers=request.compile.list_leftovers())


def parse_tuning_request(job: Json) -> TuningRequest:
    return read_record(TuningRequest, job, "request")
