"""Runs cases on this machine's GPUs, analyses the artifact of each run, and has the results compared.

The intended result comes from a replay of the program as written, in program order, on the same inputs. If that replay is
too large or does not cover the program, the intended result comes from the case's reference, a function that computes the
outputs independently. Without a reference, the results cannot be judged. A worker that dies or takes too long fails only its
own case. The devices' results are removed afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.compile.compile_service import make_request
from ligerdiag.device.device_jobs import (
    DeviceAnswer,
    DeviceRequest,
    judge_by_reference,
    make_comparison_job,
    make_comparison_request,
    make_device_job,
)
from ligerdiag.effects.declared import DeclaredEffects, parse_declared
from ligerdiag.errors import CompileError, InputError, LigerdiagError, describe_error
from ligerdiag.harmless_logs import has_nvidia_device
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import PROGRAM_ORDER, DeviceOutput, DeviceRun
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.replay.replay_service import ReplayOptions, compute_environment, explain_refusal
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool, count_cores

DEVICE_WORKER = "ligerdiag.device.device_worker"
COMPARISON_WORKER = "ligerdiag.device.comparison_worker"
DEVICE_ENVIRONMENT = {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
RUNS = 3
"""Number of runs on the device with each set of random arguments."""

type OnCase = Callable[[str, CaseSpec, int, int], None]
"""A function that is called with `started` or `finished`, the case, the number of cases done, and the number of all
cases.
"""
type JudgeArtifact = Callable[[CaseSpec, Artifact], tuple[Mapping[str, str], tuple[str, ...]]]
"""A function that takes a case and the artifact of its run on the device, and returns (the static verdict on each
output, by name; everything that the static analysis does not cover).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Says how to run cases on the devices."""

    timeout: float
    """The most seconds for one job of a case: the run on the device, or the comparison."""
    refuse: Callable[[Artifact], str]
    """Returns the reason why an artifact must not be replayed; empty if it may be."""
    draws: Callable[[CaseSpec], int]
    """Returns the number of different sets of random arguments for a case."""


_INSTEAD = "leave the option out to replay on the CPU"


def require_gpu(toolchain: str = DEFAULT, *, asked: str = "`--device`", instead: str = _INSTEAD) -> None:
    """Raises InputError if this machine has no NVIDIA GPU, or if the toolchain is not the default one. Commands call
    this function before they compile anything.

    asked: the option or command that needs the GPU, for the message. instead: advice for a machine without a GPU.
    """
    if toolchain != DEFAULT:
        raise InputError(f"a device runs only programs that toolchain `{DEFAULT}` compiles, not those of `{toolchain}`")
    if not has_nvidia_device():
        raise InputError(f"{asked} needs an NVIDIA GPU, and this machine has none: {instead}")


def run_cases(
    cases: Sequence[CaseSpec],
    options: DeviceOptions,
    *,
    cache: Cache,
    toolchain: Toolchain,
    judge: JudgeArtifact,
    on_case: OnCase,
) -> Iterator[tuple[CaseSpec, DeviceRun]]:
    """Runs each case on the devices and yields it with its result. The error of a single case is not raised: it is the
    `error` of the case's result.

    judge: function that returns the verdicts of the static analysis on an artifact. on_case: called when a case starts
    and when it has finished.
    """
    cores = count_cores()
    with (
        _open_pool(cache, toolchain, options, DEVICE_WORKER, DEVICE_ENVIRONMENT) as devices,
        _open_pool(cache, toolchain, options, COMPARISON_WORKER, compute_environment(cores)) as replays,
    ):
        bench = _DeviceRunner(devices=devices, replays=replays, options=options, judge=judge)
        for done, case in enumerate(cases):
            on_case("started", case, done, len(cases))
            results = ScratchFolder("device")
            try:
                run = bench.run(case, str(results.path))
            except LigerdiagError as error:
                died = not isinstance(error, InputError)
                run = DeviceRun(device="", count=0, runs=0, error=describe_error(error), died=died)
            finally:
                results.remove()
            on_case("finished", case, done + 1, len(cases))
            yield case, run


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeviceRunner:
    devices: Pool
    replays: Pool
    options: DeviceOptions
    judge: JudgeArtifact

    def run(self, case: CaseSpec, results: str) -> DeviceRun:
        """Runs one case on the device and returns the result. Raises the LigerdiagErrors of the workers.

        results: path of the directory for the devices' results.
        """
        compiles = make_request(self.devices, case)
        request = DeviceRequest(compile=compiles, results=results, draws=self.options.draws(case), runs=RUNS)
        answer = self.devices.submit(make_device_job(request, self.options.timeout)).result()
        artifact = self.devices.cache.find_artifact(answer.key)
        if artifact is None:
            raise CompileError(f"the artifact of case `{case.id}` disappeared from `{self.devices.cache.artifacts}`")
        outputs, source, note = self._compare(artifact, request, answer)
        verdicts, not_covered = self.judge(case, artifact)
        return DeviceRun(
            device=answer.device,
            count=answer.count,
            runs=RUNS,
            outputs={name: replace(one, unsteady=answer.unsteady.get(name, 0.0)) for name, one in outputs.items()},
            verdicts=verdicts,
            not_covered=not_covered,
            intended_from=source,
            artifact=str(artifact.directory),
            milliseconds=answer.milliseconds,
            timed_runs=answer.timed_runs,
            error=note,
        )

    def _compare(
        self, artifact: Artifact, device_request: DeviceRequest, answer: DeviceAnswer
    ) -> tuple[Mapping[str, DeviceOutput], str, str]:
        """Returns three things: the judgement of each output, by name; where the intended result comes from; and, if there
        is no intended result, the reason.
        """
        why = self.options.refuse(artifact)
        if not why:
            request = make_comparison_request(device_request, artifact.directory)
            compared = self.replays.submit(make_comparison_job(request, self.options.timeout)).result()
            if compared.outputs:
                return compared.outputs, PROGRAM_ORDER, ""
            why = f"not covered by replay: {compared.not_covered}"
        if answer.errors:
            return judge_by_reference(answer.errors), f"reference ({why})", ""
        return {}, "", f"ran, but the results cannot be judged: the case has no reference, and {why}"


def _open_pool(
    cache: Cache, toolchain: Toolchain, options: DeviceOptions, module: str, environment: Mapping[str, str]
) -> Pool:
    return Pool(
        cache=cache,
        toolchain=toolchain,
        jobs=1,
        timeout=options.timeout,
        module=module,
        environment=environment,
        forks=module != DEVICE_WORKER,  # an import may have opened the GPU's driver, which no fork could use
    )


def run_judged_cases(
    cases: Sequence[CaseSpec],
    *,
    cache: Cache,
    effects: Sequence[DeclaredEffects],
    replay: ReplayOptions | None,
    timeout: float,
    draws: Callable[[CaseSpec], int],
    report_progress: OnProgress,
) -> Iterator[tuple[CaseSpec, DeviceRun]]:
    """Runs one case after another on the device and judges its artifact. Yields each case with the results and the
    static verdicts. The error of a single case is not raised: it is the `error` of the case's result.

    effects: the user's declarations of kernels' effects, besides the declarations of each case. replay: how to replay
    the program in program order, which gives the intended result; if it is None, the intended result comes from the
    case's reference. timeout: seconds per case. draws: returns the number of draws of a case's arguments.
    """
    toolchain = current_toolchain()

    def judge(case: CaseSpec, artifact: Artifact) -> tuple[dict[str, str], tuple[str, ...]]:
        declared = (*effects, *parse_declared(case))
        found = inspect_artifact(artifact, effects_cache=cache.root / "effects", declared=declared)
        return {name: verdict.value for name, verdict in found.outputs.items()}, found.coverage.not_covered

    def refuse(artifact: Artifact) -> str:
        if replay is None:
            return "replay was not asked for"
        return explain_refusal(artifact, replay, cache=cache, toolchain=toolchain)

    def relay(event: str, case: CaseSpec, done: int, total: int) -> None:
        report_progress(Progress(phase="device", event=event, done=done, total=total, case_id=case.id, target="device"))

    limits = DeviceOptions(timeout=timeout, refuse=refuse, draws=draws)
    yield from run_cases(cases, limits, cache=cache, toolchain=toolchain, judge=judge, on_case=relay)
