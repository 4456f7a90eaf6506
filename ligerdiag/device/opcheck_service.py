"""Runs the worker of `ligerdiag.opcheck`."""

from dataclasses import replace

from ligerdiag.artifacts.cache import Cache
from ligerdiag.device.device_service import DEVICE_ENVIRONMENT
from ligerdiag.device.opcheck_jobs import OpcheckAnswer, OpcheckRequest, make_opcheck_job
from ligerdiag.errors import CaseError, CompileError, InputError
from ligerdiag.model.opcheck_report import RunFailure
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool

OPCHECK_WORKER = "ligerdiag.device.opcheck_worker"
CUDA = "cuda"
KEPT = "operands with integers kept their values, because"


def find_kernel_calls(request: OpcheckRequest, *, cache: Cache, timeout: float) -> tuple[OpcheckAnswer, str]:
    """Runs the worker that finds kernel calls. Returns its answer and a note about observations that the runs left out.
    The note is empty if nothing was left out.

    If a run of a call fails or kills the worker, all calls run once more, in a new worker. In this second attempt,
    operands with integers keep the values that the function gives them. Integers may be indices, and with changed
    indices a kernel may have accessed memory outside its buffers.

    timeout: seconds for the worker. Raises the worker's LigerdiagError.
    """
    try:
        answer = _ask(request, cache, timeout)
    except (InputError, CaseError):
        raise
    except CompileError:
        if not request.platform:
            raise
    else:
        if not _has_failed_run(answer):
            return answer, ""
    careful = _ask(replace(request, perturbs_integers=False), cache, timeout)
    return careful, f"{KEPT} {'a first run failed' if _has_failed_run(careful) else 'a run with other integers failed'}"


def _has_failed_run(answer: OpcheckAnswer) -> bool:
    return any(call.failure is RunFailure.CALL for call in answer.calls)


def _ask(request: OpcheckRequest, cache: Cache, timeout: float) -> OpcheckAnswer:
    is_gpu = request.platform == CUDA
    with Pool(
        cache=cache,
        toolchain=current_toolchain(),
        jobs=1,
        timeout=timeout,
        module=OPCHECK_WORKER,
        environment=DEVICE_ENVIRONMENT if is_gpu else None,
        forks=not is_gpu,  # an import may have opened the GPU's driver, which no fork could use
    ) as pool:
        return pool.submit(make_opcheck_job(request, timeout)).result()
