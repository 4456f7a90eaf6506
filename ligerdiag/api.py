"""What the commands do, as functions of data: nothing here prints, nothing here knows a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec, Source
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import CompileEvent, CompileResult, compile_cases, discover_cases
from ligerdiag.compile.target import list_targets, load_target
from ligerdiag.errors import LigerdiagError
from ligerdiag.hazards.registry import RULES, get_rule
from ligerdiag.hazards.rule import Rule
from ligerdiag.inspection import inspect_artifact
from ligerdiag.report.expectation import compute_status, parse_expectation
from ligerdiag.report.model import CaseReport, CheckReport, Progress, Status

__all__ = ["CheckOptions", "Progress", "check", "get_rule", "list_cases", "list_rules", "list_targets"]

type OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What to check, and how."""

    selectors: tuple[str, ...] = ()
    """Ids, globs, files, module:name; none means all of the folder `cases`."""
    targets: tuple[str, ...] = ("h100",)
    """Names of targets, or paths of target descriptions."""
    jobs: int | None = None
    """Compile workers; None means one a core."""
    timeout: float = 300.0
    """Seconds that one case may take."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    refresh: bool = False
    """Compile again what the cache has."""


def check(options: CheckOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Compile and judge every selected case on every target.

    What goes wrong with one case is in that case's report. Raises InputError or CaseError when the request as a whole
    cannot be met: a selector that means nothing, an unknown target, a case file that does not import. After Ctrl-C the
    report holds the cases that were done.
    """
    started = perf_counter()
    tell = on_progress or _ignore
    targets = tuple(load_target(name) for name in dict.fromkeys(options.targets))
    cache = Cache(options.cache_directory)
    reports: dict[tuple[Source, str, str], CaseReport] = {}
    order: list[tuple[Source, str, str]] = []
    interrupted = False
    with Pool(cache=cache, jobs=options.jobs, timeout=options.timeout) as pool:
        toolchain = pool.toolchain

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

        try:
            cases = discover_cases(options.selectors, pool=pool, refresh=options.refresh, on_event=relay)
            for case in cases:
                parse_expectation(case.expected)
            order = [(case.source, case.id, target.name) for case in cases for target in targets]
            for result in compile_cases(cases, targets, pool=pool, refresh=options.refresh, on_event=relay):
                report = _judge(result, toolchain.name, cache)
                reports[result.case.source, result.case.id, result.target] = report
        except KeyboardInterrupt:
            interrupted = True
    return CheckReport(
        cases=tuple(reports[key] for key in order if key in reports),
        targets=tuple(target.name for target in targets),
        toolchain=toolchain.name,
        versions=toolchain.versions,
        seconds=perf_counter() - started,
        interrupted=interrupted,
    )


def list_cases(selectors: Sequence[str]) -> tuple[CaseSpec, ...]:
    """The cases that the selectors mean. Raises as `check` does."""
    with Pool(cache=Cache()) as pool:
        return discover_cases(selectors, pool=pool)


def list_rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return RULES


def _judge(result: CompileResult, toolchain: str, cache: Cache) -> CaseReport:
    case = result.case
    if result.artifact is None:
        error = result.error or LigerdiagError("no artifact")
        return CaseReport(
            id=case.id,
            target=result.target,
            toolchain=toolchain,
            status=Status.ERROR,
            about=case.about,
            expected=case.expected,
            seconds=result.seconds,
            error=str(error),
            error_exit_code=error.exit_code,
            log_tail=getattr(error, "log_tail", ""),
        )
    started = perf_counter()
    try:
        inspection = inspect_artifact(result.artifact, effects_cache=cache.root / "effects")
    except LigerdiagError as error:
        return CaseReport(
            id=case.id,
            target=result.target,
            toolchain=toolchain,
            status=Status.ERROR,
            about=case.about,
            expected=case.expected,
            seconds=result.seconds + perf_counter() - started,
            cached=result.cached,
            error=str(error),
            error_exit_code=error.exit_code,
            artifact=str(result.artifact.directory),
        )
    status, mismatch = compute_status(inspection.outputs, inspection.findings, case.expected, inspection.coverage)
    return CaseReport(
        id=case.id,
        target=result.target,
        toolchain=toolchain,
        status=status,
        about=case.about,
        expected=case.expected,
        outputs=inspection.outputs,
        findings=inspection.findings,
        coverage=inspection.coverage,
        seconds=result.seconds + perf_counter() - started,
        cached=result.cached,
        mismatch=mismatch,
        artifact=str(result.artifact.directory),
    )


def _ignore(progress: Progress) -> None:
    del progress
