"""`compare`: compares two reports. They are read from files, or made here from dumps or with two toolchains."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path, PurePath

from ligerdiag.api.checking import check
from ligerdiag.api.inspecting import inspect
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.errors import ArtifactError, InputError
from ligerdiag.model.report import OnProgress
from ligerdiag.report.compared.report_comparison import (
    ReportComparison,
    ReportedCase,
    ReportedSide,
    compare_reports,
    make_side,
)
from ligerdiag.report.compared.report_reading import load_side
from ligerdiag.run_options import CheckOptions, CompareOptions, InspectOptions
from ligerdiag.text import list_first

_SHOWN = 3
_REMEDY = (
    "; a module counts as a case if it has a kernel or XLA's buffer assignment, which `--xla_dump_hlo_as_proto` dumps"
)


def compare(options: CompareOptions, on_progress: OnProgress | None = None) -> ReportComparison:
    """Returns the comparison of the reports at two paths.

    Each path has the JSON of `check` or `inspect`, or anything that `inspect` can read. Raises InputError if it has
    neither, or if no case is in both reports.
    """
    for path in (options.old, options.new):
        if not path.exists():
            raise InputError(f"there is no report or dump `{path}`")
    sides: list[ReportedSide] = []
    notes: list[str] = []
    for path, label in zip((options.old, options.new), _make_labels(options.old, options.new), strict=True):
        if is_report(path):
            sides.append(load_side(path, label))
            continue
        report = inspect(
            InspectOptions(
                paths=(path,),
                module=options.module,
                timeout=options.timeout,
                cache_directory=options.cache_directory,
                effects=options.effects,
                notes=options.notes,
                replay=False,
            ),
            on_progress,
        )
        notes += report.notes
        sides.append(_name_artifact(make_side(report, label), path))
        if report.interrupted:
            return ReportComparison(old=sides[0], new=sides[-1], cases=(), ended_by=report.ended_by)
    return _compare(sides[0], sides[1], tuple(dict.fromkeys(notes)))


def compare_toolchains(
    options: CheckOptions, toolchains: Sequence[str], on_progress: OnProgress | None = None
) -> ReportComparison:
    """Checks the cases with two toolchains, and returns the comparison of the two reports.

    Raises InputError as `check` does, and unless `toolchains` has exactly two names.
    """
    if len(toolchains) != 2:
        raise InputError(
            f"expected one toolchain, or two to compare, but got {len(toolchains)}: {', '.join(toolchains)}"
        )
    sides: list[ReportedSide] = []
    notes: list[str] = []
    for name in toolchains:
        report = check(replace(options, toolchain=name), on_progress)
        sides.append(make_side(report, name, name))
        notes += report.notes
        if report.interrupted:
            return ReportComparison(old=sides[0], new=sides[-1], cases=(), ended_by=report.ended_by)
    return _compare(sides[0], sides[1], tuple(dict.fromkeys(notes)))


def is_report(path: Path) -> bool:
    """Returns whether the file is JSON. `compare` takes such a file as a report of ligerdiag, and inspects any other
    file.
    """
    if not path.is_file():
        return False
    if path.suffix == ".json":
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip().startswith(b"{")
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _make_labels(old: Path, new: Path) -> tuple[str, str]:
    """Returns a label for each of the two files: its name, preceded by as many of its folders as make the two labels
    differ.
    """
    parts = old.resolve().parts, new.resolve().parts
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*map(reversed, parts), strict=False)))
    first, second = (str(PurePath(*one[-same - 1 :])) for one in parts)
    return (first, second) if first != second else (old.name, new.name)


def _name_artifact(side: ReportedSide, path: Path) -> ReportedSide:
    """Returns the side with the case and the toolchain that an artifact's directory records, in place of the directory's
    name, a hash; unchanged for another path.
    """
    try:
        provenance = load_artifact(path).provenance if path.is_dir() else None
    except ArtifactError:
        return side
    if provenance is None:
        return side
    return replace(side, label=f"{provenance.case_id} on {provenance.target}, {provenance.toolchain}")


def _compare(old: ReportedSide, new: ReportedSide, notes: Sequence[str]) -> ReportComparison:
    comparison = compare_reports(old, new, notes)
    if not comparison.cases:
        both = (f"`{side.label}` has {_list_cases(side.cases)}" for side in (old, new))
        remedy = "" if old.cases and new.cases else _REMEDY
        raise InputError(f"no case is in both reports: {' and '.join(both)}{remedy}")
    return comparison


def _list_cases(cases: Sequence[ReportedCase]) -> str:
    return list_first([f"`{case.id}`" for case in cases], _SHOWN) or "none"
