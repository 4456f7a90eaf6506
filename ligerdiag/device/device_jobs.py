"""Messages between ligerdiag and the workers that use this machine's devices, the files that store a device's results, and
the tolerance for comparing these results.

For `--device`, the device worker compiles a case and runs it on the GPUs. The comparison worker replays the resulting
artifact on the same inputs, on the CPU. The device worker passes its results to the comparison worker in one .npz file per
set of random arguments (a draw). NumPy's format has no bfloat16, so arrays are stored as bytes, and the reader supplies
dtype and shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from ligerdiag.artifacts.call_records import LibraryKernel
from ligerdiag.codec import Json, read_record
from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import FAR, Attribution, DeviceOutput
from ligerdiag.model.jobs import CompileRequest, Job, Source, make_job
from ligerdiag.model.opcheck_report import FoundCall

if TYPE_CHECKING:
    import numpy as np  # takes a fifth of a command's import time, and only workers have arrays

DEVICE_TOLERANCE = 2e-2
"""The relative error in norm up to which a device's output counts as equal. TF32 keeps 11 bits (2**-12 = 2.4e-4 per
operand). A few products in a row, and sums that cancel, give errors of some 1e-3 on an H200; missed hidden writes give 0.5
and more.
"""

BADNESS = (
    Attribution.FRESH,
    Attribution.UNDECIDED,
    Attribution.LOSSY,
    Attribution.PARTLY_STALE,
    Attribution.NEITHER,
    Attribution.STALE,
)
"""Attributions from best to worst; an output gets the worst attribution over all sets of random arguments."""


def judge_by_reference(errors: Mapping[str, tuple[float, ...]]) -> dict[str, DeviceOutput]:
    """Judges each output by its error against the case's reference, a function that computes the outputs independently.
    Such an error does not show whether a wrong output is stale or wrong for another reason.

    errors: maps the name of each output to its relative errors, one per draw of the arguments.
    """
    return {
        name: DeviceOutput(
            errors=found,
            attribution=max([_judge_error(error) for error in found], key=BADNESS.index),
            tolerance=DEVICE_TOLERANCE,
        )
        for name, found in errors.items()
    }


def _judge_error(error: float) -> Attribution:
    if error <= DEVICE_TOLERANCE:
        return Attribution.FRESH
    return Attribution.LOSSY if error < FAR else Attribution.NEITHER


type DeviceArray = np.ndarray[Any, Any]


def write_results(directory: Path, draw: int, results: Mapping[str, DeviceArray]) -> None:
    import numpy as np

    flat = {
        f"output{number}": np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for number, array in enumerate(results.values())
    }
    np.savez(directory / f"draw-{draw}.npz", allow_pickle=False, **flat)


def load_results(directory: Path, draw: int, like: Mapping[str, DeviceArray]) -> dict[str, DeviceArray]:
    """Loads the outputs that the device worker wrote into `directory` for one set of random arguments, by name. Raises
    ArtifactError if they cannot be read.

    draw: number of the set. like: for each output, an array of its dtype and shape, which the file does not record.
    """
    import numpy as np

    try:
        with np.load(directory / f"draw-{draw}.npz", allow_pickle=False) as file:
            found: dict[str, DeviceArray] = {}
            for number, (name, array) in enumerate(like.items()):
                found[name] = file[f"output{number}"].view(array.dtype).reshape(array.shape)
            return found
    except (OSError, EOFError, BadZipFile, KeyError, ValueError) as error:
        raise ArtifactError(
            f"the device's results for set {draw} of the random arguments cannot be read: {error}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A request to compile a case for the GPUs of this machine and to run it on them."""

    compile: CompileRequest
    """The part of the request about the compile. Its `description`, from which XLA otherwise learns the properties of a
    GPU, is empty, because XLA queries the devices.
    """
    results: str
    """Path of an existing directory, into which the devices' results are written."""
    draws: int
    """Number of different sets of random arguments."""
    runs: int
    """Number of runs with each set of random arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """The answer of the device worker: how the case was compiled for the devices, and what they computed."""

    key: str
    """Key under which the cache has the artifact of the program that ran."""
    device: str
    count: int
    milliseconds: float
    """Median time of one execution, in milliseconds."""
    timed_runs: int
    """Number of executions from which the median time is computed."""
    unsteady: Mapping[str, float]
    """Maps the name of each output to the largest relative difference between two runs with the same arguments; 0 if
    all runs are equal bit for bit.
    """
    errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Maps the name of each output to its relative errors against the output of the case's reference, one for each set of
    random arguments; empty if the case has no reference.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """A request to replay an artifact on the arguments with which it ran on a device, and to compare the results."""

    source: Source
    case_id: str
    artifact: str
    results: str
    draws: int


def make_comparison_request(request: DeviceRequest, artifact: Path) -> ComparisonRequest:
    """Returns the request to compare the results of a run on the device with a replay.

    request: the request to run the case on the device. artifact: directory of the artifact that ran.
    """
    return ComparisonRequest(
        source=request.compile.source,
        case_id=request.compile.case_id,
        artifact=str(artifact),
        results=request.results,
        draws=request.draws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer:
    """The device's outputs, compared with the intended outputs and with those of the replayed schedule."""

    outputs: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    not_covered: str = ""
    """The operation that replay cannot compute; empty if replay computes all operations."""


def make_device_job(request: DeviceRequest, timeout: float) -> Job[DeviceAnswer]:
    """Returns the job that sends this request to a device worker.

    timeout: in seconds.
    """
    source, name = request.compile.source, f"the run of case `{request.compile.case_id}` on the GPU"
    return make_job(request, DeviceAnswer, source, name, timeout=timeout, leftovers=request.compile.list_leftovers())


def make_comparison_job(request: ComparisonRequest, timeout: float) -> Job[ComparisonAnswer]:
    """Returns the job in which a worker replays an artifact that ran on the device. The worker compares the results of
    the device and the replay.

    timeout: in seconds.
    """
    name = f"the replay of case `{request.case_id}` as the GPU ran it"
    return make_job(request, ComparisonAnswer, request.source, name, timeout=timeout)


def parse_device_request(job: Json) -> DeviceRequest:
    return read_record(DeviceRequest, job, "request")


def parse_comparison_request(job: Json) -> ComparisonRequest:
    return read_record(ComparisonRequest, job, "request")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpcheckRequest:
    """A request to find the kernel calls of a pickled function, and perhaps to run them. After runs, the answer has
    their observations, too.
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
    """Returns the job that sends this request to a worker.

    timeout: in seconds.
    """
    return make_job(request, OpcheckAnswer, request.source, f"the kernel calls of `{request.source}`", timeout=timeout)


def parse_opcheck_request(job: Json) -> OpcheckRequest:
    return read_record(OpcheckRequest, job, "request")


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
