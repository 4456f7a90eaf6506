"""Records that cross the boundary to the two workers of `--device`, files with what a device computed, and how exact a
device is.

The results of a device, on their way to the process that compares them: one file per draw, in NumPy's own format.

Arrays are kept as bytes: the format does not know bfloat16. The reader knows their dtype and shape.

The messages between ligerdiag and the two workers that `--device` needs.

One compiles and runs on the GPUs; the other one replays the resulting artifact on the same inputs, on the CPU.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from ligerdiag.codec import Json, decode_record, encode_record, read_record
from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import FAR, Attribution, DeviceOutput
from ligerdiag.model.jobs import CompileRequest, Job, Source, parse_answer, render_request

if TYPE_CHECKING:
    import numpy as np  # a fifth of what a command imports, and only workers have arrays

DEVICE_TOLERANCE = 2e-2
"""Relative error in norm: TF32 keeps 11 bits (2**-12 = 2.4e-4 per operand), and a few products in a row and sums that
cancel leave up to some 1e-3 of it on an H200; hidden writes that are missed are off by 0.5 and more."""

BADNESS = (
    Attribution.FRESH,
    Attribution.UNDECIDED,
    Attribution.LOSSY,
    Attribution.PARTLY_STALE,
    Attribution.NEITHER,
    Attribution.STALE,
)
"""From good to bad: of several draws the worst counts."""


def judge_by_reference(errors: Mapping[str, tuple[float, ...]]) -> dict[str, DeviceOutput]:
    """Judges by the errors against the reference alone: they cannot tell stale from otherwise wrong."""
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
    """Returns the results of this draw by output name, each in the dtype and shape of its namesake in `like`.

    Raises ArtifactError when they do not fit.
    """
    import numpy as np

    try:
        with np.load(directory / f"draw-{draw}.npz", allow_pickle=False) as file:
            found: dict[str, DeviceArray] = {}
            for number, (name, array) in enumerate(like.items()):
                found[name] = file[f"output{number}"].view(array.dtype).reshape(array.shape)
            return found
    except (OSError, EOFError, BadZipFile, KeyError, ValueError) as error:
        raise ArtifactError(f"the results of draw {draw} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """Asks to compile a case for the GPUs that are here, and to run it on them."""

    compile: CompileRequest
    """`description` is empty: XLA asks the devices."""
    results: str
    """Directory for what the devices compute; exists."""
    draws: int
    """Number of different draws of the arguments."""
    runs: int
    """Number of runs of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """The result of running a case on the devices."""

    key: str
    """The artifact's."""
    device: str
    count: int
    milliseconds: float
    """Median time of one execution."""
    timed_runs: int
    """Executions that this is the median of."""
    unsteady: Mapping[str, float]
    """Output name to the largest relative difference between two runs of one draw, 0 when all were equal bit for bit."""
    errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Output name to its relative error against the case's reference, per draw; empty without a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """Asks to replay a device's artifact on the draws that were run, and to compare."""

    source: Source
    case_id: str
    artifact: str
    results: str
    draws: int


def ask_to_compare(asked: DeviceRequest, artifact: Path) -> ComparisonRequest:
    """Returns the request to compare what this one has left. artifact: the device's, a directory."""
    return ComparisonRequest(
        source=asked.compile.source,
        case_id=asked.compile.case_id,
        artifact=str(artifact),
        results=asked.results,
        draws=asked.draws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer:
    """The device's outputs against the replay of its artifact."""

    outputs: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    not_covered: str = ""
    """The operations that replay does not compute."""


def make_device_job(request: DeviceRequest, timeout: float) -> Job[DeviceAnswer]:
    """Returns the job that asks a device worker."""
    return Job(
        source=request.compile.source,
        name=f"the run of case `{request.compile.case_id}` on the GPU",
        render=lambda log: render_request("DeviceRequest", encode_record(request), log),
        parse=lambda line: decode_record(DeviceAnswer, parse_answer(line)),
        leftovers=(request.compile.scratch, f"{request.compile.scratch}-old"),
        timeout=timeout,
    )


def make_comparison_job(request: ComparisonRequest, timeout: float) -> Job[ComparisonAnswer]:
    """Returns the job that asks a comparison worker."""
    return Job(
        source=request.source,
        name=f"the replay of case `{request.case_id}` as the GPU ran it",
        render=lambda log: render_request("ComparisonRequest", encode_record(request), log),
        parse=lambda line: decode_record(ComparisonAnswer, parse_answer(line)),
        timeout=timeout,
    )


def parse_device_request(job: Json) -> DeviceRequest:
    return read_record(DeviceRequest, job, "request")


def parse_comparison_request(job: Json) -> ComparisonRequest:
    return read_record(ComparisonRequest, job, "request")


def render_answer(answer: DeviceAnswer | ComparisonAnswer) -> str:
    """Returns one line for the parent."""
    return json.dumps({"answer": encode_record(answer)}) + "\n"
