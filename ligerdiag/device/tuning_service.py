"""Records the choices of XLA's autotuner on this machine's GPUs, for one case after another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.compile.compile_service import make_request
from ligerdiag.device.device_service import DEVICE_ENVIRONMENT
from ligerdiag.device.tuning_jobs import TuningRequest, make_tuning_job
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.toolchains.tuning_file import is_text_name, join_results
from ligerdiag.workers.pool import Pool

TUNING_WORKER = "ligerdiag.device.tuning_worker"


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
