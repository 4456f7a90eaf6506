"""From one compile result to a report without a status."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec, Source
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import CompileResult
from ligerdiag.compile.toolchain import Toolchain
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.errors import CompileError, LigerdiagError
from ligerdiag.inspection import inspect_artifact
from ligerdiag.module_inspector import describe_error, describe_failed, describe_inspection
from ligerdiag.report.model import CaseReport, Status


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
