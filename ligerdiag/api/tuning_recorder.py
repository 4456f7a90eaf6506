"""`record-tuning`: compiles cases on the GPUs of this machine and keeps the choices of XLA's autotuner, so that `check` can
compile with them on machines without a GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.api.judging import ignore_progress
from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.compile.compile_service import discover_cases, make_request
from ligerdiag.device.device_jobs import TuningRequest, make_tuning_job
from ligerdiag.device.device_service import DEVICE_ENVIRONMENT, require_gpu
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.run_options import TuningOptions
from ligerdiag.toolchains.gpu_targets import list_targets
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain
from ligerdiag.toolchains.tuning_file import (
    compute_device_key,
    is_text_name,
    join_results,
    list_devices,
    strip_library_version,
)
from ligerdiag.workers.pool import Pool

TUNING_WORKER = "ligerdiag.device.tuning_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTuning:
    """The choices of XLA's autotuner for the selected cases."""

    content: bytes
    """The contents of the file; empty if there is no choice."""
    device: str = ""
    """The name that the vendor gives the GPU, such as `NVIDIA H200`."""
    devices: Mapping[str, int] = field(default_factory=dict[str, int])
    """Maps XLA's description of a GPU, as the file has it, to the number of choices for that GPU."""
    targets: tuple[str, ...] = ()
    """Names of ligerdiag's targets that describe this GPU."""
    artifacts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Maps the id of each case that was compiled to the directory of its artifact."""
    errors: Mapping[str, LigerdiagError] = field(default_factory=dict[str, LigerdiagError])
    """Maps the id of each case that was not compiled to the reason."""


def record_tuning(options: TuningOptions, on_progress: OnProgress | None = None) -> RecordedTuning:
    """Compiles the selected cases for the GPUs of this machine, with autotuning, and returns XLA's choices.

    Does not raise the error of one case: the result has it. Raises InputError if the machine has no GPU, for a selector that
    matches nothing, and if nothing in the cases is tuned.
    """
    require_gpu(asked="`ligerdiag record-tuning`", instead="run it on a machine of the kind that you deploy on")
    report = on_progress or ignore_progress
    cache, toolchain = Cache(options.cache_directory), current_toolchain()
    with Pool(cache=cache, toolchain=toolchain, jobs=1, timeout=options.timeout) as pool:
        cases = discover_cases(options.selectors, pool=pool, report_progress=on_progress)
    content, device = b"", ""
    artifacts, errors = dict[str, Path](), dict[str, LigerdiagError]()
    tuned = tune_cases(cases, options.output, cache=cache, toolchain=toolchain, timeout=options.timeout)
    for done, one in enumerate(tuned, start=1):
        if one.error is not None:
            errors[one.case.id] = one.error
        else:
            content, device = one.results, one.device
        if one.artifact is not None:
            artifacts[one.case.id] = one.artifact.directory
        event = Progress(
            phase="tune", event="finished", done=done, total=len(cases), case_id=one.case.id, target="device"
        )
        report(event)
    devices = list_devices(content)
    if not devices and not errors:
        raise InputError("XLA tuned nothing in the selected cases: they have no product, convolution or fusion to tune")
    keys = {strip_library_version(device) for device in devices}
    return RecordedTuning(
        content=content if devices else b"",
        device=device,
        devices=devices,
        targets=tuple(
            target.name for target in list_targets() if strip_library_version(compute_device_key(target)) in keys
        ),
        artifacts=artifacts,
        errors=errors,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCase:
    """A case that was compiled with autotuning. If the compile failed, `error` has the reason."""

    case: CaseSpec
    results: bytes = b""
    """The contents of a file with the autotuner's choices for this case and for the cases before it."""
    device: str = ""
    """The vendor's name of the GPU."""
    artifact: Artifact | None = None
    error: LigerdiagError | None = None


def tune_cases(
    cases: Sequence[CaseSpec], output: Path, *, cache: Cache, toolchain: Toolchain, timeout: float
) -> Iterator[TunedCase]:
    """Compiles each case with autotuning and yields it. For an instruction that an earlier case has as well, XLA uses
    the earlier choice. The error of a single case is not raised: it is the `error` of the case's result.

    output: the file that the caller will write. Its suffix decides whether `TunedCase.results` are text or binary.
    timeout: seconds per case.
    """
    folder = ScratchFolder("tuning")
    suffix = ".textproto" if is_text_name(output) else ".pb"
    joined, written = folder.path / f"joined{suffix}", folder.path / f"written{suffix}"
    try:
        with Pool(
            cache=cache,
            toolchain=toolchain,
            jobs=1,
            timeout=timeout,
            module=TUNING_WORKER,
            environment=DEVICE_ENVIRONMENT,
            forks=False,  # an import may have opened the GPU's driver, which no fork could use
        ) as pool:
            for case in cases:
                request = TuningRequest(
                    compile=make_request(pool, case),
                    results=str(written),
                    earlier=str(joined) if joined.exists() else "",
                )
                written.unlink(missing_ok=True)
                try:
                    answer = pool.submit(make_tuning_job(request, timeout)).result()
                    joined.write_bytes(join_results([*([joined] if joined.exists() else []), written], output))
                except LigerdiagError as error:
                    yield TunedCase(case=case, error=error)
                    continue
                artifact = cache.find_artifact(answer.key)
                yield TunedCase(case=case, results=joined.read_bytes(), device=answer.device, artifact=artifact)
    finally:
        folder.remove()
