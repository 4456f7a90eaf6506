"""Finds the cases that a user selects, and their artifacts for given targets. Reports progress meanwhile.

If nothing has changed, cases and artifacts come from the cache's index, without a worker and without JAX.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache as remember
from hashlib import sha256
from pathlib import Path
from time import monotonic, time

from ligerdiag.artifacts.artifact import FORMAT_VERSION, Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.codec import FieldError, encode_record, read_record, read_str
from ligerdiag.compile.cases.selectors import Selector, choose_cases, parse_selectors
from ligerdiag.errors import CompileError, InputError, LigerdiagError, WorkerImportError
from ligerdiag.model.case import read_sizes
from ligerdiag.model.jobs import (
    CaseSpec,
    CompileAnswer,
    CompileRequest,
    DiscoverRequest,
    Flag,
    Source,
    Variation,
    make_compile_job,
    make_discover_job,
)
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.model.tuning import TUNING_LEVEL
from ligerdiag.toolchains.gpu_targets import Target, explain_unfit
from ligerdiag.toolchains.toolchain import Toolchain, compute_important_environment
from ligerdiag.workers.pool import Pool

type OnBroken = Callable[[Source, LigerdiagError], None]
"""A function that is called with a source whose cases cannot be found, and the reason."""

_UNCHANGED = Variation()


_PARTS = (
    "artifacts",
    "compile",
    "toolchains",
    "workers",
    "codec.py",
    "ending.py",
    "errors.py",
    "model/case.py",
    "model/jobs.py",
    "model/tuning.py",
)
"""Files and folders of ligerdiag's own source that decide what an artifact contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """The result of compiling one case for one target: its artifact, or the error that prevented the compile. The
    artifact is the directory with everything that XLA wrote.
    """

    case: CaseSpec
    target: str
    artifact: Artifact | None
    error: LigerdiagError | None
    seconds: float
    """Wall-clock seconds since the worker began the compile; 0 if the artifact was in the cache."""
    cached: bool
    printed: str = ""
    """The text that the user's code printed while the case was traced, also if that was in an earlier run."""
    state_notes: tuple[str, ...] = ()
    """The parts of the caller's state that the worker could not get, one sentence each."""


def discover_cases(
    selectors: Sequence[Selector],
    *,
    pool: Pool,
    directory: Path | None = None,
    refresh: bool = False,
    report_progress: OnProgress | None = None,
    on_broken: OnBroken | None = None,
    on_printed: Callable[[Source, str], None] | None = None,
) -> tuple[CaseSpec, ...]:
    """Returns the selected cases without duplicates, in the order of the selectors.

    directory: the folder to which paths and modules are relative; by default the current one. refresh: whether to read
    the sources even if the cache knows their cases. on_broken: called with each source whose cases cannot be found, and
    its error; if there are several sources, the error is then not raised, and the cases of all other sources are
    returned. on_printed: called with the text that a source printed while it was imported, in this run or in the one
    whose answer the cache has.

    Raises InputError for a selector that matches nothing, and for a size in the environment that no file requests by
    calling `ligerdiag.size`; CaseError for a file that cannot be imported; CompileError if the worker dies;
    WorkerImportError, also with several sources, if no worker can start.
    """
    selections = parse_selectors(selectors, directory or Path.cwd())
    sources = tuple(dict.fromkeys(source for selection in selections for source in selection.sources))
    found: dict[Source, tuple[CaseSpec, ...]] = {}
    printed: dict[Source, str] = {}
    pool.cache.forget_hashes()
    for source in () if refresh else sources:
        kept = _find_cases(pool, source)
        if kept is not None:
            found[source], printed[source] = kept
    missing = [source for source in sources if source not in found]
    broken: set[Source] = set()
    report = report_progress or _ignore
    report(Progress(phase="discover", event="started", done=len(found), total=len(sources)))
    futures = [(source, pool.submit(make_discover_job(DiscoverRequest(source=source)))) for source in missing]
    try:
        for source, future in futures:
            try:
                answer = future.result()
            except WorkerImportError:
                raise
            except LigerdiagError as error:
                if on_broken is not None:
                    on_broken(source, error)
                if on_broken is None or len(sources) == 1:
                    raise
                broken.add(source)
                found[source] = ()
                continue
            found[source], printed[source] = answer.cases, answer.printed
            kept = {"cases": encode_record(answer.cases), "printed": answer.printed}
            pool.cache.keep_answer(_make_cases_question(pool.toolchain, source), answer.dependencies, kept)
            report(Progress(phase="discover", event="finished", done=len(found), total=len(sources)))
    finally:
        for _, future in futures:
            future.cancel()
    if on_printed is not None:
        for source in sources:
            if printed.get(source):
                on_printed(source, printed[source])
    if not broken:
        _check_sizes({name for cases in found.values() for case in cases for name in case.sizes})
    chosen: list[CaseSpec] = []
    for selection in selections:
        try:
            chosen += choose_cases(selection, found)
        except InputError:
            if not broken.intersection(selection.sources):  # otherwise it may select a case of a broken source
                raise
    return tuple({(case.source, case.id): case for case in chosen}.values())


def _check_sizes(asked: set[str]) -> None:
    """Raises InputError if the environment sets a size (a number that a case file requests by calling `ligerdiag.size`)
    that no file requests while it is imported: the name is misspelt, or a file requests the size only later.

    asked: names of the sizes that the files request while they are imported.
    """
    given = read_sizes()
    unknown = sorted(given.keys() - asked)
    if unknown:
        known = f"the files ask for {', '.join(sorted(asked))}" if asked else "a file asks by calling `ligerdiag.size`"
        raise InputError(f"no case file asks for the size `{unknown[0]}` when it is imported: {known}")


def compile_cases(
    cases: Sequence[CaseSpec],
    targets: Sequence[Target],
    *,
    pool: Pool,
    variation: Variation = _UNCHANGED,
    refresh: bool = False,
    report_progress: OnProgress | None = None,
) -> Generator[CompileResult]:
    """Compiles each case for each target, and yields each result as soon as it exists. Results from the cache come
    first. The error of a single case is not raised: the case's result has it.

    variation: the compiler options for all cases, and the ties, which force reads to happen after kernels; by default
    none. refresh: whether to compile even cases whose artifacts are in the cache. Raises WorkerImportError if no worker
    can start.
    """
    report = report_progress or _ignore
    total, done, not_before = len(cases) * len(targets), 0, time() if refresh else 0.0
    pool.cache.forget_hashes()
    missing: list[tuple[CaseSpec, Target]] = []
    for case, target in ((case, target) for case in cases for target in targets):
        unfit = explain_unfit(target, pool.toolchain)
        if unfit:
            done += 1
            result = _make_refused(case, target, unfit)
            report(_make_finished(result, done, total))
            yield result
            continue
        kept = None if refresh else _find_artifact(pool, case, target, variation)
        if kept is None:
            missing.append((case, target))
            continue
        done += 1
        report(_make_finished(kept, done, total))
        yield kept
    for step in _compile_missing(missing, pool, variation, not_before):
        if isinstance(step, CompileResult):
            done += 1
            report(_make_finished(step, done, total))
            yield step
        else:
            case, target = step
            report(
                Progress(phase="compile", event="started", done=done, total=total, case_id=case.id, target=target.name)
            )


def _make_refused(case: CaseSpec, target: Target, reason: str) -> CompileResult:
    return CompileResult(
        case=case, target=target.name, artifact=None, error=InputError(reason), seconds=0.0, cached=False
    )


def _compile_missing(
    missing: Sequence[tuple[CaseSpec, Target]], pool: Pool, variation: Variation, not_before: float
) -> Iterator[tuple[CaseSpec, Target] | CompileResult]:
    """Yields each (case, target) when its compile begins, and its result when the compile ends.

    not_before: seconds since the epoch; an artifact in the cache that is older is not reused.
    """
    started: dict[int, float] = {}
    aborted: list[tuple[CaseSpec, Target]] = []
    jobs = [make_compile_job(_make_request(pool, case, target, variation, not_before)) for case, target in missing]
    for number, future in pool.run_all(jobs):
        case, target = missing[number]
        if future is None:
            started[number] = monotonic()
            yield case, target
            continue
        result = _finish(pool, case, target, variation, future)
        if variation.lineage and isinstance(result.error, CompileError):
            aborted.append((case, target))  # the worker itself compiles without lineage unless XLA ends the process
        else:
            yield replace(result, seconds=monotonic() - started.get(number, monotonic()))
    if aborted:
        yield from _compile_missing(aborted, pool, replace(variation, lineage=False), not_before)


def _finish(
    pool: Pool, case: CaseSpec, target: Target, variation: Variation, future: Future[CompileAnswer]
) -> CompileResult:
    failed = CompileResult(case=case, target=target.name, artifact=None, error=None, seconds=0.0, cached=False)
    try:
        answer = future.result()
    except WorkerImportError:
        raise
    except LigerdiagError as error:
        return replace(failed, error=error, printed=error.printed)
    artifact = pool.cache.find_artifact(answer.key)
    if artifact is None:
        gone = CompileError(f"the artifact of case `{case.id}` disappeared from `{pool.cache.artifacts}`")
        return replace(failed, error=gone)
    kept = {"key": answer.key, "printed": answer.printed, "state_notes": list(answer.state_notes)}
    pool.cache.keep_answer(_make_artifact_question(pool, case, target, variation), answer.dependencies, kept)
    return replace(failed, artifact=artifact, printed=answer.printed, state_notes=answer.state_notes)


def _make_request(
    pool: Pool, case: CaseSpec, target: Target, variation: Variation, not_before: float
) -> CompileRequest:
    return replace(
        make_request(pool, case),
        target=target.name,
        description=target.description,
        compute_capability=target.compute_capability,
        flags={**_choose_options(pool.toolchain, variation), **variation.flags},
        not_before=not_before,
        ties=tuple(sorted(set(variation.ties))),
        by_barrier=variation.by_barrier,
        declared=tuple(sorted(set(variation.declared))),
        tuning=variation.tuning,
        lineage=variation.lineage,
    )


def _choose_options(toolchain: Toolchain, variation: Variation) -> dict[str, Flag]:
    """Returns the compiler options of the toolchain; those against autotuning are left out if there are choices of an
    autotuner.
    """
    return {
        name: value for name, value in toolchain.options.items() if variation.tuning is None or name != TUNING_LEVEL
    }


def make_request(pool: Pool, case: CaseSpec) -> CompileRequest:
    """Returns the request to compile the case for the GPUs of this machine, which XLA queries itself."""
    return CompileRequest(
        source=case.source,
        case_id=case.id,
        target="device",
        description="",
        compute_capability=0,
        toolchain=pool.toolchain.name,
        versions=pool.toolchain.versions,
        environment=compute_important_environment(),
        flags={},
        fingerprint=compute_compile_fingerprint(),
        artifacts=str(pool.cache.artifacts),
        scratch=str(pool.cache.allocate_scratch()),
        not_before=0.0,
    )


def _find_cases(pool: Pool, source: Source) -> tuple[tuple[CaseSpec, ...], str] | None:
    """Returns the cases of the source as the cache's index has them, and the text that their import printed; None if the
    index does not know them. The `source` of each case is the given one, from which a worker will load it, not the
    recorded one.
    """
    answer = pool.cache.find_answer(_make_cases_question(pool.toolchain, source))
    if answer is None:
        return None
    try:
        cases, printed = read_record(tuple[CaseSpec, ...], answer, "cases"), read_str(answer, "printed")
    except FieldError:
        return None
    return tuple(replace(case, source=source) for case in cases), printed


def _find_artifact(pool: Pool, case: CaseSpec, target: Target, variation: Variation) -> CompileResult | None:
    """Returns the artifact that the cache's index has for the case, with the facts about its trace; None if the index has
    none.
    """
    answer = pool.cache.find_answer(_make_artifact_question(pool, case, target, variation))
    if answer is None:
        return None
    try:
        artifact, printed = pool.cache.find_artifact(read_str(answer, "key")), read_str(answer, "printed")
        notes = read_record(tuple[str, ...], answer, "state_notes")
    except FieldError:
        return None
    if artifact is None:
        return None
    return CompileResult(
        case=case,
        target=target.name,
        artifact=artifact,
        error=None,
        seconds=0.0,
        cached=True,
        printed=printed,
        state_notes=notes,
    )


def find_import_dependencies(cache: Cache, toolchain: Toolchain, source: Source) -> Mapping[str, str]:
    """Returns the files of the project that an import of the source reads, each with its sha256. Returns an empty
    mapping unless the cache has the cases of the source.
    """
    return cache.find_dependencies(_make_cases_question(toolchain, source)) or {}


def find_artifact_dependencies(
    source: Source, case_id: str, target: Target, *, cache: Cache, toolchain: Toolchain, environ: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the files of the project on which an artifact depends, each with its sha256. The source imports or reads
    them, or they are imported while the case is traced. Returns an empty mapping unless the cache has the artifact.

    environ: environment variables with which the artifact was compiled.
    """
    question = _make_question(source, case_id, target, toolchain=toolchain, variation=_UNCHANGED, environ=environ)
    return cache.find_dependencies(question) or {}


def _make_cases_question(toolchain: Toolchain, source: Source) -> dict[str, object]:
    return {"question": "cases", "source": encode_record(source), **_compute_circumstances(toolchain, os.environ)}


def _make_artifact_question(pool: Pool, case: CaseSpec, target: Target, variation: Variation) -> dict[str, object]:
    toolchain = pool.toolchain
    return _make_question(case.source, case.id, target, toolchain=toolchain, variation=variation, environ=os.environ)


def _make_question(
    source: Source,
    case_id: str,
    target: Target,
    *,
    toolchain: Toolchain,
    variation: Variation,
    environ: Mapping[str, str],
) -> dict[str, object]:
    return {
        "question": "artifact",
        "source": encode_record(source),
        "case": case_id,
        "target": target.sha256,
        "flags": dict(variation.flags),
        "ties": sorted(set(variation.ties)),
        "by_barrier": variation.by_barrier,
        "declared": sorted(set(variation.declared)),
        "tuning": "" if variation.tuning is None else variation.tuning.copy_sha256,
        **({"lineage": True} if variation.lineage else {}),
        **_compute_circumstances(toolchain, environ),
    }


def _compute_circumstances(toolchain: Toolchain, environ: Mapping[str, str]) -> dict[str, object]:
    return {
        "format_version": FORMAT_VERSION,
        "fingerprint": compute_compile_fingerprint(),
        "versions": dict(toolchain.versions),
        "options": dict(toolchain.options),
        "environment": compute_important_environment(environ),
    }


@remember
def compute_compile_fingerprint() -> str:
    """Returns a sha256 of all source files of ligerdiag that decide the contents of an artifact. It covers their names
    and contents.
    """
    return compute_sources_sha256(_PARTS)


def compute_sources_sha256(parts: Sequence[str]) -> str:
    """Returns a sha256 of these files and folders of ligerdiag's source. It covers names and contents."""
    root = Path(__file__).parents[1]
    digest = sha256()
    for part in parts:
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(root)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _make_finished(result: CompileResult, done: int, total: int) -> Progress:
    return Progress(
        phase="compile",
        event="finished",
        done=done,
        total=total,
        case_id=result.case.id,
        target=result.target,
        cached=result.cached,
    )


def _ignore(event: Progress) -> None:
    del event


def make_toolchain_step(step: str) -> Progress:
    """Returns the progress event for a step in the creation of a toolchain's environment.

    step: the text to show about the step.
    """
    return Progress(phase="toolchain", event="started", done=0, total=1, case_id=step)
