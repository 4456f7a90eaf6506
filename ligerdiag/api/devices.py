"""The cases of a run on the GPUs of this machine."""

from collections.abc import Iterator

from ligerdiag.api.options import CheckOptions
from ligerdiag.api.run import Key, Run
from ligerdiag.compile.artifacts import Artifact
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.toolchain import Toolchain
from ligerdiag.device.service import DeviceOptions, run_cases
from ligerdiag.effects.declared import parse_declared
from ligerdiag.inspection import inspect_artifact
from ligerdiag.outcomes import DeviceRun
from ligerdiag.replay.plan import ALONE_SECONDS
from ligerdiag.replay.service import ReplayOptions, explain_refusal
from ligerdiag.report.model import OnProgress, Progress

DRAWS = 3
"""Different draws of the arguments that a device runs; one, where replaying them takes long."""


FULL_TIMEOUT = 1800.0
"""Seconds that a case may take on the device and its comparison, when bounds are lifted."""


def make_replay_options(options: CheckOptions) -> ReplayOptions:
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        refresh=options.refresh,
    )


def run_on_devices(
    run: Run, options: CheckOptions, cache: Cache, toolchain: Toolchain, tell: OnProgress
) -> Iterator[tuple[Key, DeviceRun]]:
    """Each case runs once, whatever the targets it was compiled for."""
    cases = {(task.case.source, task.case.id): task.case for task in run.tasks}

    def judge(case: CaseSpec, artifact: Artifact) -> tuple[dict[str, str], tuple[str, ...]]:
        declared = (*options.effects, *parse_declared(case))
        found = inspect_artifact(artifact, effects_cache=cache.root / "effects", declared=declared)
        return {name: verdict.value for name, verdict in found.outputs.items()}, found.coverage.not_covered

    def refuse(artifact: Artifact) -> str:
        if not options.replay:
            return "replay was not asked for"
        return explain_refusal(artifact, how, cache=cache, toolchain=toolchain)

    def relay(event: str, case: CaseSpec, done: int, total: int) -> None:
        tell(Progress(phase="device", event=event, done=done, total=total, case_id=case.id, target="device"))

    how = make_replay_options(options)
    large = {
        key[:2]
        for key, report in run.reports.items()
        if report.replay is not None and report.replay.estimated_seconds > ALONE_SECONDS
    }
    limits = DeviceOptions(
        timeout=max(options.timeout, FULL_TIMEOUT if options.bounds.full else 0.0),
        refuse=refuse,
        draws=lambda case: 1 if (case.source, case.id) in large else DRAWS,
    )
    runs = run_cases(list(cases.values()), limits, cache=cache, toolchain=toolchain, judge=judge, on_case=relay)
    for case, device in runs:
        for key in run.order:
            if key[:2] == (case.source, case.id) and key in run.reports:
                yield key, device
