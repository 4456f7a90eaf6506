"""Runs cases on this machine's GPUs, judges each by its own artifact, and has its results compared.

The intended result comes from program order, replayed on the same inputs. If the replay is too large or not covered, it
comes from the case's reference; without one, the run decides nothing. A worker that dies or takes too long fails only
its own case. The devices' results are removed afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
"""Device files of NVIDIA's driver on Linux, and on the Windows subsystem for Linux."""
RUNS = 3
"""Number of runs of each draw."""

type OnCase = Callable[[str, CaseSpec, int, int], None]
"""Called with `started` or `finished`, the case, how many are done, and how many there are."""
type JudgeArtifact = Callable[[CaseSpec, Artifact], tuple[Mapping[str, str], tuple[str, ...]]]
"""Takes the device's own artifact; returns the static verdict on each output, and what the analysis does not cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Options of a run on the devices."""

    timeout: float
    """Seconds for one case."""
    refuse: Callable[[Artifact], str]
    """Returns the reason why an artifact is not replayed; empty if it is."""
    draws: Callable[[CaseSpec], int]
    """Returns the number of different draws of a case's arguments."""


def require_gpu(toolchain: str = DEFAULT) -> None:
    """Raises InputError if this machine has no NVIDIA GPU or the toolchain is not the default one.

    Commands call it before they compile anything.
    """
    if toolchain != DEFAULT:
        raise InputError(f"a device runs what toolchain `{DEFAULT}` compiles, not `{toolchain}`")
    if not any(Path(device).exists() for device in _DEVICES):
        raise InputError("`--device` needs an NVIDIA GPU, and this machine has none: leave it out to replay on the CPU")


def run_cases(
    cases: Sequence[CaseSpec],
    options: DeviceOptions,
    *,
    cache: Cache,
    toolchain: Toolchain,
    judge: JudgeArtifact,
    on_case: OnCase,
) -> Iterator[tuple[CaseSpec, DeviceRun]]:
    """Yields each case with its run. Errors of one case are not raised: they are in the run's `error`."""
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
        """Runs one case. results: directory for the devices' results. Raises the workers' LigerdiagError."""
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
        """Returns (numbers by output, the source of the intended result, the reason if there is none)."""
        why = self.options.refuse(artifact)
        if not why:
            request = make_comparison_request(device_request, artifact.directory)
            compared = self.replays.submit(make_comparison_job(request, self.options.timeout)).result()
            if compared.outputs:
                return compared.outputs, PROGRAM_ORDER, ""
            why = f"not covered by replay: {compared.not_covered}"
        if answer.errors:
            return judge_by_reference(answer.errors), f"reference ({why})", ""
        return {}, "", f"ran, but there is nothing to compare with: no reference, and {why}"


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
        forks=module != DEVICE_WORKER,  # an import may have opened a driver
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
    """Yields each case with its run, one after another. Errors of one case are not raised: they are in its run's
    `error`.

    effects: declared effects beside those that each case declares. replay: how to replay program order, the intended
    result; None uses the case's reference. timeout: seconds per case. draws: number of draws of a case's arguments.
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
