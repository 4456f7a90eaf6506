"""Messages between `ligerdiag.opcheck` and its worker."""

from dataclasses import dataclass

from ligerdiag.artifacts.call_records import LibraryKernel
from ligerdiag.codec import Json, read_record
from ligerdiag.model.jobs import Job, Source, make_job
from ligerdiag.model.opcheck_report import FoundCall


@dataclass(frozen=True, slots=True, kw_only=True)
class OpcheckRequest:
    """A request to a worker for the kernel calls of a pickled function. If the worker is to run the calls, it also returns
    the observations of the runs.
    """

    source: Source
    description: str
    """XLA's description of the GPU for which the calls are lowered; empty for a device of this machine."""
    compute_capability: int
    """Compute capability of the described GPU, such as 90; 0 for a device of this machine."""
    platform: str = ""
    """JAX's name of the platform on which the calls run, `cuda` or `cpu`; empty to run nothing."""
    perturbs_integers: bool = True
    """Whether the runs also change operands whose elements are integers; these may be indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpcheckAnswer:
    """The kernel calls that the worker found, in program order."""

    calls: tuple[FoundCall, ...]
    device: str = ""
    """The kind of the device that ran the calls; empty if nothing ran."""
    library_kernels: tuple[LibraryKernel, ...] = ()
    """The kernels of calls without a payload, from the libraries that run them."""
    state_notes: tuple[str, ...] = ()
    """As in `CompileAnswer`."""


def make_opcheck_job(request: OpcheckRequest, timeout: float) -> Job[OpcheckAnswer]:
    """Returns the job that sends this request to a worker. timeout: in seconds."""
    return make_job(request, OpcheckAnswer, request.source, f"the kernel calls of `{request.source}`", timeout=timeout)


def parse_opcheck_request(job: Json) -> OpcheckRequest:
    return read_record(OpcheckRequest, job, "request")
