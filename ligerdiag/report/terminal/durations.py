"""Renders how long the cases of a run took, phase by phase, as text."""

from collections.abc import Mapping, Sequence

from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.text import compute_printable, compute_without_commands

_PHASES = ("total", "compile", "analysis", "replay")


def render_durations(report: CheckReport, count: int) -> str:
    """Returns a table with the seconds of each phase of the slowest cases, with a final newline.

    The slowest case comes first. A case that was not run has no row. A phase whose result came from the cache says
    `cached`, and `-` marks a phase that was not done. count: largest number of rows; 0 means all.
    """
    cases = [case for case in report.cases if case.status is not Status.NOT_CHECKED]
    slowest = sorted(cases, key=lambda case: -_compute_seconds(case)["total"])[: count or None]
    if not slowest:
        return "durations: no case was run\n"
    rows = [_PHASES, *(_list_cells(case) for case in slowest)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_PHASES))]
    names = ["", *(f"{case.id} on {case.target}" for case in slowest)]
    lines = [_join(row, widths, name) for row, name in zip(rows, names, strict=True)]
    head = f"slowest {len(slowest)} of {len(cases)}, in seconds; cases run beside each other:"
    notes = ["runs on a device are not in these times"] if any(case.device is not None for case in cases) else []
    return "".join(f"{line}\n" for line in (head, *lines, *notes))


def _compute_seconds(case: CaseReport) -> Mapping[str, float]:
    """Returns a mapping from phase (`compile`, `analysis`, `replay`) to the seconds that it took in this run, with their
    sum as `total`.
    """
    replay = 0.0 if case.replay is None or case.replay.cached else case.replay.seconds
    phases = {"compile": case.compile_seconds, "analysis": case.seconds - case.compile_seconds, "replay": replay}
    return {"total": sum(phases.values()), **phases}


def _list_cells(case: CaseReport) -> tuple[str, ...]:
    cells = {name: f"{max(seconds, 0.0):.2f}" for name, seconds in _compute_seconds(case).items()}
    if case.cached:
        cells["compile"] = "cached"
    if case.replay is not None and case.replay.cached:
        cells["replay"] = "cached"
    elif case.replay is None or not case.replay.seconds:
        cells["replay"] = "-"
    return tuple(cells[name] for name in _PHASES)


def _join(cells: Sequence[str], widths: Sequence[int], name: str) -> str:
    columns = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return compute_without_commands(compute_printable(f"  {columns}  {name}".rstrip()))
