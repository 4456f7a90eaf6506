"""`ligerdiag.opcheck`: checks that each kernel call of a function reads and writes exactly the buffers that it declares."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ligerdiag.api.function import LiveFunction, name_function, write_live_function
from ligerdiag.artifacts.cache import Cache
from ligerdiag.config import Config, load_config
from ligerdiag.device.device_jobs import OpcheckAnswer, OpcheckRequest, make_opcheck_job
from ligerdiag.device.device_service import DEVICE_ENVIRONMENT
from ligerdiag.effects.declared import DeclaredEffects, parse_declarations
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import CaseError, CompileError, InputError
from ligerdiag.harmless_logs import has_nvidia_device
from ligerdiag.hlo.parse import parse_hlo_module
from ligerdiag.inspection.call_judgement import CallJudge, JudgedCall, judge_unread
from ligerdiag.model.jobs import Source
from ligerdiag.model.opcheck_report import OpcheckReport, RunFailure
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool

DEVICES = ("auto", "gpu", "cpu", "none")
NO_CALL = "the function makes no kernel call that ligerdiag knows: of jax-triton, Pallas, cuTile, CuTe DSL or `jax.ffi`"
NO_GPU = "no call was run, because this machine has no NVIDIA GPU: the kernels' code alone was read"
NOT_ASKED = "no call was run, because `device` is `none`: the kernels' code alone was read"
OPCHECK_WORKER = "ligerdiag.device.opcheck_worker"
CUDA = "cuda"
KEPT = "operands with integers kept their values, because"


def opcheck(
    fn: Callable[..., Any],
    *specs: Any,
    kwargs: Mapping[str, Any] | None = None,
    device: str = "auto",
    target: str = "h100",
    effects: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    name: str = "",
    config: Path | None = None,
    cache_directory: Path | str | None = None,
    timeout: float = 300.0,
) -> OpcheckReport:
    """Checks that the kernel calls of a function write exactly the operands that they declare, and all of their outputs.

    Reads the code of each kernel and, on a machine with an NVIDIA GPU, runs each call by itself several times. The operands
    are those that the function passes to it, between guard bytes; outputs are filled with canary bytes; further runs change
    the contents of one operand at a time. Everything happens in a process of its own; this process does not call the
    function.

        report = ligerdiag.opcheck(step, x, w)
        assert report.ok, report

    fn: any function of arrays that makes kernel calls, as for `ligerdiag.check`.
    specs: its arguments by position, as for `ligerdiag.check`. Give arrays of the sizes that the kernel is for. The runs
        use the values of integer arrays and of small arrays; instead of a large array of floats they use random numbers
        from the range of its values.
    kwargs: the arguments that the function gets by keyword.
    device: "auto" runs the calls if the machine has a GPU, "gpu" requires one and a run of each call, "none" only reads
        the kernels' code. "cpu" runs them on the CPU, for handlers of `jax.ffi` that are registered for it.
    target: the GPU whose kernels are read if no call is run, see `ligerdiag targets`.
    effects: what kernels do according to their author, as in `Case`: `{"kernel": {"writes": [0]}}`. A hidden write that
        is stated here is no problem. If a kernel's code cannot be read, what is stated here counts as its effects.
    name: the function's name in the report.
    config: a pyproject.toml whose [tool.ligerdiag.effects] add to `effects`; none by default.
    cache_directory: folder of the cache, by default LIGERDIAG_CACHE_DIR, else the user's cache.
    timeout: most seconds for all runs; a run that fails is repeated once.

    Raises InputError if the function or an argument cannot be sent to a worker, if `device` is not one of the four values
    or this machine has no such device, or if the function does not take the arguments; CaseError if the function raises;
    CompileError if the worker dies.
    """
    if device not in DEVICES:
        raise InputError(f"expected one of {', '.join(DEVICES)} for `device` but got {device!r:.60}")
    if device == "gpu" and not has_nvidia_device():
        raise InputError('`device="gpu"` needs an NVIDIA GPU, and this machine has none')
    settings = Config() if config is None else load_config(config, Path.cwd())
    declared = (*parse_declarations(effects or {}, place="`effects` for `{}`"), *settings.effects)
    cache = Cache(None if cache_directory is None else Path(cache_directory))
    live = LiveFunction(function=fn, specs=specs, kwargs=kwargs, name=name)
    source = write_live_function(live, cache, Path.cwd())
    answer, notes = _find_calls(source, device, target, cache, timeout)
    judged = _judge_calls(answer, declared, cache, requires_run=device == "gpu")
    return OpcheckReport(
        function=name or name_function(fn),
        calls=tuple(one.call for one in judged),
        problems=tuple(problem for one in judged for problem in one.problems),
        not_covered=tuple(dict.fromkeys((*answer.state_notes, *_list_uncovered(judged)))),
        notes=tuple(dict.fromkeys((*notes, *(line for one in judged for line in one.notes)))),
        device=answer.device,
    )


def _list_uncovered(judged: Sequence[JudgedCall]) -> tuple[str, ...]:
    return tuple([line for one in judged for line in one.not_covered]) if judged else (NO_CALL,)


def _find_calls(
    source: Source, device: str, target: str, cache: Cache, timeout: float
) -> tuple[OpcheckAnswer, tuple[str, ...]]:
    """Returns the function's kernel calls, run on the device if there is one, and notes on what was not run."""
    runs = device == "gpu" or (device == "auto" and has_nvidia_device())
    platform = CUDA if runs else "cpu" if device == "cpu" else ""
    note = NOT_ASKED if device == "none" else NO_GPU
    if platform:
        request = OpcheckRequest(source=source, description="", compute_capability=0, platform=platform)
        try:
            answer, left_out = find_kernel_calls(request, cache=cache, timeout=timeout)
        except InputError as error:
            if device != "auto":
                raise
            note = f"no call was run ({error}): the kernels' code alone was read"
        else:
            return answer, (left_out,) if left_out else ()
    described = load_target(target)
    request = OpcheckRequest(
        source=source, description=described.description, compute_capability=described.compute_capability
    )
    return find_kernel_calls(request, cache=cache, timeout=timeout)[0], (note,)


def _judge_calls(
    answer: OpcheckAnswer, declared: Sequence[DeclaredEffects], cache: Cache, *, requires_run: bool
) -> tuple[JudgedCall, ...]:
    reader = CallEffectsReader(cache=cache.root / "effects", libraries=answer.library_kernels)
    modules = [parse_hlo_module(base64.b64decode(one.module)) if one.module else None for one in answer.calls]
    reader.read(*(module for module in modules if module is not None))
    judged: list[JudgedCall] = []
    for found, module in zip(answer.calls, modules, strict=True):
        inside = [] if module is None else [call for _, call in module.iterate_custom_calls()]
        if len(inside) != 1:
            reason = found.trouble or f"JAX made {len(inside)} custom calls of the call, where one was expected"
            judged.append(judge_unread(found, reason))
            continue
        (call,) = inside
        effects = reader.find(call)
        named = replace(found, kernel=effects.kernel or found.kernel)
        judge = CallJudge(found=named, call=call, effects=effects, declarations=declared, requires_run=requires_run)
        judged.append(judge.judge())
    return tuple(judged)


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
