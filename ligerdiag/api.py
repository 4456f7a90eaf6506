"""What the commands do, as functions of data: nothing here prints, nothing here knows a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.compile.artifacts import Artifact
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.environments import provide_toolchain
from ligerdiag.compile.job import CaseSpec, Source
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import CompileEvent, CompileResult, compile_cases, discover_cases
from ligerdiag.compile.target import Target, list_targets, load_target
from ligerdiag.compile.toolchain import Toolchain, current_toolchain
from ligerdiag.compile.toolchain_table import DEFAULT
from ligerdiag.device.service import DeviceOptions, require_gpu, run_cases
from ligerdiag.dumps.select import select_modules
from ligerdiag.dumps.translate import Translator
from ligerdiag.effects.declared import DeclaredEffects, parse_declarations
from ligerdiag.errors import CompileError, InputError, LigerdiagError
from ligerdiag.findings import Verdict
from ligerdiag.hazards.measured import Measured
from ligerdiag.hazards.registry import RULES, check_measured, find_unsettled, get_rule
from ligerdiag.hazards.rule import Rule
from ligerdiag.inspected_modules import InspectedModules
from ligerdiag.inspection import inspect_artifact, open_readers
from ligerdiag.outcomes import DeviceRun, Replay, ReplayState
from ligerdiag.replay.plan import ALONE_SECONDS, Bounds
from ligerdiag.replay.service import ReplayOptions, ReplayTask, explain_refusal, replay_artifacts
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.allowed import compute_allowed_outputs
from ligerdiag.report.expectation import compute_status, parse_expectation
from ligerdiag.report.expected_rules import parse_expected_rules
from ligerdiag.report.model import CaseReport, CheckReport, Noun, Progress, Status
from ligerdiag.suppressions.entry import ConfigEntry
from ligerdiag.suppressions.scope import Scope, compute_scope
from ligerdiag.suppressions.suppressions import Suppressions
from ligerdiag.toolchain_doctor import ToolchainStatus, diagnose, list_statuses

__all__ = [
    "CheckOptions",
    "InspectOptions",
    "Progress",
    "check",
    "create_toolchain",
    "diagnose_toolchain",
    "get_rule",
    "inspect",
    "list_cases",
    "list_rules",
    "list_targets",
    "list_toolchains",
]

type OnProgress = Callable[[Progress], None]
DRAWS = 3
"""Different draws of the arguments that a device runs; one, where replaying them takes long."""
FULL_TIMEOUT = 1800.0
"""Seconds that a case may take on the device and its comparison, when bounds are lifted."""

type Key = tuple[Source, str, str]
"""Source, case and target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What to check, and how."""

    selectors: tuple[str, ...] = ()
    """Ids, globs, files, module:name; none means all of the folder `cases`."""
    targets: tuple[str, ...] = ("h100",)
    """Names of targets, or paths of target descriptions."""
    jobs: int | None = None
    """Compile and replay workers; None means one a core."""
    timeout: float = 300.0
    """Seconds that one case may take to compile, and again to replay."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    refresh: bool = False
    """Compile and replay again what the cache has."""
    replay: bool = True
    """Replay what fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    rows: bool = False
    """Count the rows of each output that are fresh and stale."""
    device: bool = False
    """Compile each case for the GPUs of this machine, too, run it on them and compare."""
    toolchain: str = DEFAULT
    """Compile with that one; see `list_toolchains`."""
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """What is believed of operands whose effects are unknown."""
    usual_targets: tuple[str, ...] = ("h100",)
    """Targets that the project is checked for by default; without all of them no suppression is called unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """What to inspect, and how."""

    paths: tuple[Path, ...]
    """Dump directories, files with a module, artifact directories."""
    module: str = ""
    """Glob over the modules' ids; empty means all."""
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """What is believed of operands whose effects are unknown."""
    timeout: float | None = None
    """Seconds that one module may take; None means by the size of its files."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """What is known of the cases so far; filled step by step, so that Ctrl-C leaves what was done."""

    order: tuple[Key, ...] = ()
    reports: dict[Key, CaseReport] = field(default_factory=dict["Key", CaseReport])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])


def check(options: CheckOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Compile, judge and replay every selected case on every target.

    What goes wrong with one case is in that case's report. Raises InputError or CaseError when the request as a whole
    cannot be met: a selector that means nothing, an unknown target, a case file that does not import. After Ctrl-C the
    report holds the cases that were done.
    """
    started = perf_counter()
    tell = on_progress or _ignore

    def relay(event: CompileEvent) -> None:
        tell(
            Progress(
                phase=event.phase,
                event=event.event,
                done=event.done,
                total=event.total,
                case_id=event.case_id,
                target=event.target,
                cached=event.cached,
            )
        )

    if options.device and options.toolchain != DEFAULT:
        raise InputError(f"a device runs what toolchain `{DEFAULT}` compiles, not `{options.toolchain}`")
    if options.device:
        require_gpu()
    targets = tuple(load_target(name) for name in dict.fromkeys(options.targets))
    cache, own = Cache(options.cache_directory), current_toolchain()
    toolchain = provide_toolchain(options.toolchain, cache, lambda step: tell(_make_step(step)))
    run, interrupted = _Run(), False
    suppressions = Suppressions(options.suppress)
    try:
        _compile(run, options, targets, cache=cache, toolchain=toolchain, relay=relay)
        for key, replay in _replay(run, options, cache, own, relay) if options.replay else ():
            run.reports[key] = replace(run.reports[key], replay=replay)
        for key, device in _run_on_devices(run, options, cache, toolchain, tell) if options.device else ():
            run.reports[key] = replace(run.reports[key], device=device)
    except KeyboardInterrupt:
        interrupted = True
    concluded = [(key[0], conclude(run.reports[key], suppressions)) for key in run.order if key in run.reports]
    cases = tuple(report for _, report in concluded)
    scope = Scope()
    if not interrupted:
        scope = compute_scope(
            options.selectors,
            Path.cwd(),
            concluded,
            targets=options.targets,
            usual_targets=options.usual_targets,
        )
    return CheckReport(
        cases=cases,
        targets=tuple(target.name for target in targets),
        toolchain=toolchain.name,
        versions=toolchain.versions,
        is_other_toolchain=not toolchain.is_own,
        seconds=perf_counter() - started,
        interrupted=interrupted,
        notes=_list_declared((*options.effects, *(one for task in run.tasks for one in _parse_declared(task.case)))),
        unused_suppressions=suppressions.list_unused(cases, scope),
    )


def inspect(options: InspectOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Judge the modules that somebody else compiled: those under the paths that hold custom calls.

    What goes wrong with one module is in that module's report. Raises InputError when a path holds no module or none
    matches. After Ctrl-C the report holds the modules that were done.
    """
    started = perf_counter()
    tell = on_progress or _ignore
    selection = select_modules(options.paths, options.module)
    inspected, interrupted = InspectedModules(selection, options.timeout, options.effects), False
    cache = Cache(options.cache_directory)
    try:
        with Translator(cache=cache, timeout=options.timeout) as translator:
            for done, name in inspected.run(translator, effects_cache=cache.root / "effects"):
                tell(Progress(phase="inspect", event="started", done=done, total=inspected.total, case_id=name))
    except KeyboardInterrupt:
        interrupted = True
    suppressions = Suppressions(options.suppress)
    cases = tuple(conclude(report, suppressions) for report in inspected.reports)
    return CheckReport(
        cases=cases,
        targets=tuple(dict.fromkeys(report.target for report in inspected.reports)),
        toolchain="",
        seconds=perf_counter() - started,
        interrupted=interrupted,
        notes=(*inspected.list_notes(), *_list_declared(options.effects)),
        noun=Noun.MODULE,
        unused_suppressions=suppressions.list_unused(cases, Scope()),
    )


def list_cases(selectors: Sequence[str]) -> tuple[CaseSpec, ...]:
    """The cases that the selectors mean. Raises as `check` does."""
    with Pool(cache=Cache()) as pool:
        return discover_cases(selectors, pool=pool)


def list_toolchains(cache_directory: Path | None = None) -> tuple[ToolchainStatus, ...]:
    """The toolchains, the default one first, by what is on the disk: nothing is started."""
    return list_statuses(Cache(cache_directory))


def create_toolchain(name: str, tell: Callable[[str], None], cache_directory: Path | None = None) -> ToolchainStatus:
    """Makes the toolchain's environment unless it is there; `tell` is told each step. Raises as `check` does."""
    cache = Cache(cache_directory)
    provide_toolchain(name, cache, tell)
    return next(status for status in list_statuses(cache) if status.name == name)


def diagnose_toolchain(name: str, target: str = "h100", cache_directory: Path | None = None) -> ToolchainStatus:
    """Tries the toolchain on a small program for that GPU, if its environment is there; InputError for unknown names."""
    return diagnose(name, Cache(cache_directory), load_target(target))


def list_rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return RULES


def _compile(
    run: _Run,
    options: CheckOptions,
    targets: Sequence[Target],
    *,
    cache: Cache,
    toolchain: Toolchain,
    relay: Callable[[CompileEvent], None],
) -> None:
    """Compiles and judges every case; the reports have no status yet."""
    with (
        Pool(cache=cache, toolchain=toolchain, jobs=options.jobs, timeout=options.timeout) as pool,
        open_readers(toolchain, cache) or nullcontext() as readers,
    ):
        cases = discover_cases(options.selectors, pool=pool, refresh=options.refresh, on_event=relay)
        cases = tuple(_expect_of(case, toolchain) for case in cases)
        for case in cases:
            parse_expectation(case.expected)
            parse_expected_rules(case.expected_rules, beside=case.expected)
            _parse_declared(case)
        run.order = tuple((case.source, case.id, target.name) for case in cases for target in targets)
        for result in compile_cases(cases, targets, pool=pool, refresh=options.refresh, on_event=relay):
            declared = (*options.effects, *_parse_declared(result.case))
            report = _judge(result, toolchain.name, cache, declared, readers)
            run.reports[result.case.source, result.case.id, result.target] = report
            if result.artifact is not None and not report.error:
                run.tasks.append(ReplayTask(case=result.case, target=result.target, artifact=result.artifact))


def _expect_of(case: CaseSpec, toolchain: Toolchain) -> CaseSpec:
    """The case with what is expected when this toolchain compiles it."""
    if toolchain.name not in case.expected_elsewhere:
        return case
    return replace(case, expected=case.expected_elsewhere[toolchain.name], expected_rules=None)


def _replay(
    run: _Run, options: CheckOptions, cache: Cache, toolchain: Toolchain, relay: Callable[[CompileEvent], None]
) -> Iterator[tuple[Key, Replay]]:
    how = _make_replay_options(options)
    for task, replay in replay_artifacts(run.tasks, how, cache=cache, toolchain=toolchain, on_event=relay):
        yield (task.case.source, task.case.id, task.target), replay


def _make_replay_options(options: CheckOptions) -> ReplayOptions:
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        refresh=options.refresh,
    )


def _run_on_devices(
    run: _Run, options: CheckOptions, cache: Cache, toolchain: Toolchain, tell: OnProgress
) -> Iterator[tuple[Key, DeviceRun]]:
    """Each case runs once, whatever the targets it was compiled for."""
    cases = {(task.case.source, task.case.id): task.case for task in run.tasks}

    def judge(case: CaseSpec, artifact: Artifact) -> tuple[dict[str, str], tuple[str, ...]]:
        declared = (*options.effects, *_parse_declared(case))
        found = inspect_artifact(artifact, effects_cache=cache.root / "effects", declared=declared)
        return {name: verdict.value for name, verdict in found.outputs.items()}, found.coverage.not_covered

    def refuse(artifact: Artifact) -> str:
        if not options.replay:
            return "replay was not asked for"
        return explain_refusal(artifact, how, cache=cache, toolchain=toolchain)

    def relay(event: str, case: CaseSpec, done: int, total: int) -> None:
        tell(Progress(phase="device", event=event, done=done, total=total, case_id=case.id, target="device"))

    how = _make_replay_options(options)
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


def _judge(
    result: CompileResult, toolchain: str, cache: Cache, declared: Sequence[DeclaredEffects], readers: Pool | None
) -> CaseReport:
    """What the schedule says; the status is that of an error until `conclude`."""
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
    )
    if result.artifact is None:
        error = result.error or LigerdiagError("no artifact")
        log_tail = error.log_tail if isinstance(error, CompileError) else ""
        return replace(report, error=str(error), error_exit_code=error.exit_code, log_tail=log_tail)
    report = replace(report, artifact=str(result.artifact.directory))
    try:
        inspection = inspect_artifact(
            result.artifact, effects_cache=cache.root / "effects", declared=declared, readers=readers
        )
    except LigerdiagError as error:
        seconds = result.seconds + perf_counter() - started
        return replace(report, error=str(error), error_exit_code=error.exit_code, seconds=seconds)
    return replace(
        report,
        outputs=inspection.outputs,
        findings=inspection.findings,
        coverage=inspection.coverage,
        seconds=result.seconds + perf_counter() - started,
    )


def conclude(report: CaseReport, suppressions: Suppressions | None = None) -> CaseReport:
    """The report with the findings that numbers add or settle, what contradicts what, what is allowed, and its status.

    suppressions: None allows nothing.
    """
    if report.error:
        return report
    measured = Measured(outputs=report.outputs, findings=report.findings, replay=report.replay, device=report.device)
    findings = check_measured(measured)
    if suppressions is not None:
        findings = suppressions.apply(report.id, findings)
    allowed = compute_allowed_outputs(report.outputs, findings)
    disagreements = compute_disagreements(report.outputs, findings, report.replay, report.device)
    unsettled = find_unsettled(
        replayed=report.replay is not None and report.replay.state is ReplayState.DONE,
        ran=report.device is not None and not report.device.error,
    )

    def judge(outputs: Mapping[str, Verdict]) -> tuple[Status, str]:
        rules = report.expected_rules
        return compute_status(
            outputs,
            findings,
            report.expected,
            report.coverage,
            expected_rules=rules,
            unsettled=unsettled,
            allowed={name: verdict for name, verdict in allowed.items() if outputs.get(name) is verdict},
        )

    status, mismatch = judge(report.outputs)
    if report.device is not None and report.device.verdicts and status is not Status.UNEXPECTED:
        on_device = {name: Verdict(word) for name, word in report.device.verdicts.items()}
        there, why = judge(on_device)
        if there in (Status.UNEXPECTED, Status.FINDINGS):
            status, mismatch = there, f"on {report.device.device}: {why}" if why else ""
    return replace(
        report,
        status=Status.DISAGREEMENT if disagreements else status,
        findings=findings,
        disagreements=disagreements,
        mismatch=mismatch,
    )


def _parse_declared(case: CaseSpec) -> tuple[DeclaredEffects, ...]:
    """What the case itself declares of custom calls; raises InputError."""
    return parse_declarations(case.effects, place=f"`effects` of case `{case.id}` for `{{}}`")


def _list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """A line for each declaration: a verdict can hang on it."""
    names = dict.fromkeys(one.name for one in effects)
    return tuple(f"what `{name}` does is declared, and believed where it could not be told" for name in names)


def _make_step(step: str) -> Progress:
    return Progress(phase="toolchain", event="started", done=0, total=1, case_id=step)


def _ignore(progress: Progress) -> None:
    del progress
