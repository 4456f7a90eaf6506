"""Baselines of `check`: what a run is compared with, what it has to say of that, and what it records."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ligerdiag.api.options import CheckOptions
from ligerdiag.baseline import Baseline, EntryKey, load_baseline, render_baseline
from ligerdiag.compile.job import CaseSpec
from ligerdiag.errors import InputError
from ligerdiag.hazards.ld015_schedule_drift import RULE as DRIFT
from ligerdiag.neighbourhood import ScheduleFacts
from ligerdiag.report.json import compute_version
from ligerdiag.report.model import CaseReport, CheckReport, Status
from ligerdiag.words import count_of

_SHOWN = 3


def require_distinct(cases: Sequence[CaseSpec]) -> None:
    """Raises InputError when two cases have one id: a baseline could not tell them apart."""
    places: dict[str, str] = {}
    for case in cases:
        place = str(case.source)
        if case.id in places:
            both = f"`{places[case.id]}` and `{place}`"
            raise InputError(f"expected one case `{case.id}` but it is in {both}: a baseline goes by ids")
        places[case.id] = place


def compute_facts(report: CaseReport) -> ScheduleFacts:
    """Returns the part of the report that a baseline records."""
    return ScheduleFacts(outputs=report.outputs, neighbourhoods=report.neighbourhoods)


def find_recorded(baseline: Baseline | None, report: CaseReport, toolchain: str) -> ScheduleFacts | None:
    """Returns the baseline's entry for this compile; None if there is no baseline or no entry."""
    return baseline.entries.get(_make_key(report, toolchain)) if baseline is not None else None


def list_baseline_notes(
    baseline: Baseline, path: Path, cases: Sequence[CaseReport], options: CheckOptions, versions: dict[str, str]
) -> Iterator[str]:
    """Returns notes that compare the run as a whole with the baseline, one line each."""
    keys = {_make_key(case, options.toolchain): case for case in cases}
    compared = [case for key, case in keys.items() if key in baseline.entries and case.status is not Status.ERROR]
    drifted = [case for case in compared if any(finding.rule == DRIFT.id for finding in case.findings)]
    yield f"{len(drifted)} of {count_of(len(compared), 'compile')} drifted from the baseline `{path}`"
    recorded = baseline.toolchains.get(options.toolchain, {})
    others = [name for name in sorted({*recorded, *versions}) if recorded.get(name) != versions.get(name)]
    if recorded and others:
        was, now = (", ".join(f"{name} {them.get(name, 'absent')}" for name in others) for them in (recorded, versions))
        yield f"the baseline was recorded with {was}; this run has {now}"
    if baseline.ligerdiag != compute_version():
        yield f"the baseline was recorded by ligerdiag {baseline.ligerdiag}; this is {compute_version()}"
    new = [key for key in keys if key not in baseline.entries]
    if new:
        yield f"not in the baseline: {_list(new)}; `--record {path}` adds what a run compiles"
    targets = {case.target for case in cases}
    rest = [k for k in baseline.entries if k not in keys and k.toolchain == options.toolchain and k.target in targets]
    if rest:
        yield f"in the baseline and not in this run, because not selected or gone: {_list(rest)}"


def render_record(report: CheckReport, options: CheckOptions, path: Path) -> str:
    """Returns the text of a baseline of this run: what the file at `path` already has of other compiles is kept.

    Raises InputError when there is a file that is no baseline.
    """
    newer = Baseline(
        ligerdiag=compute_version(),
        toolchains={options.toolchain: report.versions},
        entries={_make_key(case, options.toolchain): compute_facts(case) for case in list_recordable(report)},
    )
    return render_baseline(load_baseline(path).join(newer) if path.exists() else newer)


def list_recordable(report: CheckReport) -> tuple[CaseReport, ...]:
    """Returns the compiles that a baseline can hold: those that were analysed."""
    return tuple(case for case in report.cases if case.status is not Status.ERROR)


def _make_key(report: CaseReport, toolchain: str) -> EntryKey:
    return EntryKey(case=report.id, target=report.target, toolchain=toolchain)


def _list(keys: Sequence[EntryKey]) -> str:
    shown = ", ".join(f"`{key.case}` on {key.target}" for key in sorted(keys)[:_SHOWN])
    return shown + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
