"""From compile results to reports without a status: what is known of the cases of one run, also on this machine's
GPUs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.api.options import CheckOptions
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.service import CompileResult
from ligerdiag.device.service import run_judged_cases
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.ending import Ending
from ligerdiag.errors import CompileError, LigerdiagError
from ligerdiag.inspection.artifact import inspect_artifact
from ligerdiag.inspection.module import describe_error, describe_failed, describe_inspection
from ligerdiag.model.findings import DeviceRun, Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, OnProgress, Status
from ligerdiag.replay.service.job import ALONE_SECONDS
from ligerdiag.replay.service.service import ReplayOptions, ReplayTask
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.workers.pool import Pool


def expect_of(case: CaseSpec, toolchain: Toolchain) -> CaseSpec:
    """Returns the case with what is expected when this toolchain compiles it."""
    if toolchain.name not in case.expected_elsewhere:
        return case
    return replace(case, expected=case.expected_elsewhere[toolchain.name], expected_rules=None)


def find_file(source: Source) -> str:
    """Returns the file that defines the source's cases; empty where it is a module that is not below the folder of the
    project."""
    if source.file or not source.module:
        return source.file
    path = Path(source.root, *source.module.partition(":")[0].split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((str(candidate) for candidate in candidates if candidate.is_file()), "")


def name_source(source: Source) -> str:
    """Returns the source in a report: a file below the current folder as it is called from there."""
    path = Path(source.file)
    return str(path.relative_to(Path.cwd())) if source.file and path.is_relative_to(Path.cwd()) else str(source)


def describe_broken(
    name: str, target: str, toolchain: str, error: LigerdiagError, source: Source | None = None
) -> CaseReport:
    """Returns the report of a file without cases, as it cannot be read; the other files stand."""
    return CaseReport(
        id=name,
        target=target,
        toolchain=toolchain,
        status=Status.ERROR,
        error=str(error),
        error_exit_code=error.exit_code,
        log_tail=error.log_tail if isinstance(error, CompileError) else "",
        source="" if source is None else find_file(source),
    )


def judge_result(
    result: CompileResult,
    toolchain: str,
    cache: Cache,
    declared: Sequence[DeclaredEffects],
    readers: Pool | None,
    *,
    neighbourhoods: bool = False,
    view: bool = False,
) -> CaseReport:
    """Returns the report on what the schedule says; its status is that of an error until `conclude`.

    neighbourhoods, view: as in `inspect_artifact`.
    """
    started = perf_counter()
    report = CaseReport(
        id=result.case.id,
        target=result.target,
        toolchain=toolchain,
        status=Status.ERROR,
        about=result.case.about,
        expected=result.case.expected,
        expected_rules=result.case.expected_rules,
        seconds=result.seconds,
        cached=result.cached,
        source=find_file(result.case.source),
    )
    if result.artifact is None:
        error = result.error or LigerdiagError("no artifact")
        log_tail = error.log_tail if isinstance(error, CompileError) else ""
        return replace(describe_error(report, error), log_tail=log_tail)
    report = replace(report, artifact=str(result.artifact.directory))
    try:
        inspection = inspect_artifact(
            result.artifact,
            effects_cache=cache.root / "effects",
            declared=declared,
            readers=readers,
            neighbourhoods=neighbourhoods,
            view=view,
        )
    except LigerdiagError as error:
        return replace(describe_error(report, error), seconds=result.seconds + perf_counter() - started)
    except Exception as fault:
        return describe_failed(report, fault)
    return describe_inspection(report, inspection, result.seconds + perf_counter() - started)


type RunKey = tuple[Source, str, str]
"""Source, case and target."""


@dataclass(slots=True, kw_only=True)
class Run:
    """The known results of the cases so far. Filled step by step, so that an interrupted run keeps the results it
    has."""

    order: tuple[RunKey, ...] = ()
    cases: dict[tuple[Source, str], CaseSpec] = field(default_factory=dict[tuple[Source, str], CaseSpec])
    reports: dict[RunKey, CaseReport] = field(default_factory=dict["RunKey", CaseReport])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])

    def mark_undone(self, ending: Ending, toolchain: str, *, replay: bool, device: bool) -> None:
        """Says of every case what was not done before the run was ended. replay, device: whether they were
        requested."""
        why = f"the run was ended by {ending.value} before its turn"
        for key in self.order:
            report = self.reports.get(key)
            if report is None:
                self.reports[key] = self._describe_unchecked(key, toolchain, why)
            elif not report.error:
                self.reports[key] = _fill_numbers(report, why, replay=replay, device=device)

    def _describe_unchecked(self, key: RunKey, toolchain: str, why: str) -> CaseReport:
        source, case_id, target = key
        case = self.cases[source, case_id]
        return CaseReport(
            id=case_id,
            target=target,
            toolchain=toolchain,
            status=Status.NOT_CHECKED,
            about=case.about,
            expected=case.expected,
            expected_rules=case.expected_rules,
            error=why,
            source=find_file(source),
        )


def _fill_numbers(report: CaseReport, why: str, *, replay: bool, device: bool) -> CaseReport:
    if replay and report.replay is None:
        report = replace(report, replay=Replay(state=ReplayState.NOT_DONE, reason=why))
    if device and report.device is None:
        report = replace(report, device=DeviceRun(device="", count=0, runs=0, error=why))
    return report


DRAWS = 3
"""Different draws of the arguments that a device runs; one, where replaying them takes long."""
FULL_TIMEOUT = 1800.0
"""Seconds that a case may take on the device and its comparison, when bounds are lifted."""


def make_replay_options(options: CheckOptions) -> ReplayOptions:
    """Returns the options of a replay that these options ask for."""
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        refresh=options.refresh,
    )


def run_on_devices(
    run: Run, options: CheckOptions, cache: Cache, tell: OnProgress
) -> Iterator[tuple[RunKey, DeviceRun]]:
    """Runs each case once, for however many targets it was compiled."""
    cases = {(task.case.source, task.case.id): task.case for task in run.tasks}
    large = {
        key[:2]
        for key, report in run.reports.items()
        if report.replay is not None and report.replay.estimated_seconds > ALONE_SECONDS
    }
    runs = run_judged_cases(
        list(cases.values()),
        cache=cache,
        effects=options.effects,
        replay=make_replay_options(options) if options.replay else None,
        timeout=max(options.timeout, FULL_TIMEOUT if options.bounds.full else 0.0),
        draws=lambda case: 1 if (case.source, case.id) in large else DRAWS,
        tell=tell,
    )
    for case, device in runs:
        for key in run.order:
            if key[:2] == (case.source, case.id) and key in run.reports:
                yield key, device
