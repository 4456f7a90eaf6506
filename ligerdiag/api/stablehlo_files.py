"""The part of `inspect` for files with StableHLO: a worker compiles each file like a case, and the result is judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ligerdiag.api.checking import check
from ligerdiag.api.judging import refuse_source
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import parse_dump_name
from ligerdiag.ending import Ending
from ligerdiag.errors import ArtifactError, InputError, LigerdiagError
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CheckReport, Identity, Judged, Noun, OnProgress, leave_undone
from ligerdiag.report.status import conclude
from ligerdiag.run_options import DEFAULT_TARGETS, CheckOptions, InspectOptions
from ligerdiag.toolchains.gpu_targets import load_targets
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.untrusted_files import is_flatbuffer, open_untrusted

SUFFIXES = (".mlir", ".stablehlo", ".mlirbc")
_BEGINNINGS = (b"ML\xefR", b"module ", b"#loc")
"""First bytes of MLIR: of its bytecode, and of its text."""
_HEAD_BYTES = 4096
_FOLDER = "stablehlo"
"""Name of an empty folder in the cache, in which a worker finds nothing to import."""


def is_stablehlo(path: Path) -> bool:
    """Returns whether the path is a file with StableHLO, or with a program that `jax.export` has serialized.

    The file's name or its first bytes show that.
    """
    if not path.is_file() or parse_dump_name(path.name) is not None:
        return False
    if path.suffix in SUFFIXES:
        return True
    try:
        with open_untrusted(path, 1 << 62) as file:
            head = file.read(_HEAD_BYTES) or b""
    except (ArtifactError, OSError):
        return False
    return head.startswith(_BEGINNINGS) or is_flatbuffer(head)


def check_stablehlo(paths: Sequence[Path], options: InspectOptions, on_progress: OnProgress | None) -> CheckReport:
    """Compiles the files for each target of the options, judges and replays them, and returns the report.

    If one file fails, this raises nothing, and the report has the error of the file. Raises InputError for an unknown
    target.
    """
    started = perf_counter()
    targets = tuple(target.name for target in load_targets(options.targets or DEFAULT_TARGETS))
    sources = _make_sources(paths, options)
    how = CheckOptions(
        selectors=sources,
        targets=options.targets or DEFAULT_TARGETS,
        timeout=options.timeout or CheckOptions().timeout,
        cache_directory=options.cache_directory,
        replay=options.replay,
        bounds=options.bounds,
        budgets=options.budgets,
        source_roots=options.source_roots,
        toolchain=options.toolchain or DEFAULT,
        suppress=options.suppress,
        effects=options.effects,
        record=options.neighbourhoods,
        view=options.view,
    )
    try:
        report = check(how, on_progress)
    except LigerdiagError as error:  # `check` raises what is wrong with its only source
        refused = tuple(
            conclude(refuse_source(str(source), target, how.toolchain, error))
            for source in sources
            for target in targets
        )
        report = CheckReport(cases=refused, targets=targets, toolchain=how.toolchain, seconds=perf_counter() - started)
    return replace(report, noun=Noun.MODULE, notes=(*report.notes, *_describe_program(report)))


def leave_stablehlo(paths: Sequence[Path], options: InspectOptions, ending: Ending) -> CheckReport:
    """Returns a report that lists each file as not compiled, because the run ended before.

    ending: the event that ended the run.
    """
    targets, why = (
        options.targets or DEFAULT_TARGETS,
        f"the run was ended by {ending.value} before its turn",
    )
    undone: list[Judged] = [
        leave_undone(Identity(id=str(source), target=target), why)
        for source in _make_sources(paths, options)
        for target in targets
    ]
    cases = tuple(conclude(one) for one in undone)
    return CheckReport(cases=cases, targets=targets, toolchain="", interrupted=True, ended_by=ending, noun=Noun.MODULE)


def require_stablehlo(options: InspectOptions) -> None:
    """Raises InputError if an option is set that applies only to StableHLO. Call it if no path is a file with StableHLO."""
    given = "--target" if options.targets else "--toolchain" if options.toolchain else ""
    if given:
        raise InputError(
            f"`{given}` works only with files of StableHLO, and no path is such a file: a dump is compiled already"
        )


def _describe_program(report: CheckReport) -> tuple[str, ...]:
    if not any(case.outputs for case in report.cases):
        return ()
    return (
        "the program is the StableHLO as written: a kernel call that JAX dropped before is in no report; where autodiff "
        "may have saved an overwritten value, it is unknown which version of the value a derivative means",
    )


def _make_sources(paths: Sequence[Path], options: InspectOptions) -> tuple[Source, ...]:
    """Returns the source of each file; its name is that of the file, or the path if two files have one name."""
    root = Cache(options.cache_directory).root / _FOLDER
    root.mkdir(parents=True, exist_ok=True)
    files = tuple(dict.fromkeys(paths))
    names = [path.name for path in files]
    return tuple(
        Source(
            stablehlo=str(path.absolute()),
            module=path.name if names.count(path.name) == 1 else str(path),
            root=str(root),
        )
        for path in files
    )
