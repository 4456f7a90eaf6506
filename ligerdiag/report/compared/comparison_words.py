"""Words about a comparison of two reports, which the terminal and Markdown share."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.memory_limits import TOLERANCE, TOLERANCE_BYTES
from ligerdiag.model.report import Status
from ligerdiag.report.compared.report_comparison import (
    FIGURES,
    ComparedCase,
    ComparedFigure,
    Grade,
    ReportComparison,
    ReportedFinding,
)
from ligerdiag.text import count_of, list_first, render_bytes

ARROW = "→"
_OPEN = (Status.DISAGREEMENT, Status.INCONCLUSIVE, Status.UNEXPECTED, Status.FINDINGS)
"""The statuses that need attention, whether a case had them before or not."""
COLUMNS = ("verdicts", *FIGURES)
"""Titles of the columns that `list_cells` fills."""
TOLERATED = f"figures count as equal if they differ by at most {TOLERANCE * 100:.0f} % or {TOLERANCE_BYTES >> 10} KiB"


def list_cells(case: ComparedCase) -> tuple[str, ...]:
    """Returns the cells of a case in the table: its worst verdict and each of its figures.

    A cell is `old → new`, or one value if both reports have the same.
    """
    return (describe_verdicts(case), *(_describe_figure(case, name) for name in FIGURES))


def describe_verdicts(case: ComparedCase) -> str:
    """Returns the worst verdict in the old and the new report, such as `fresh → STALE`.

    If a report has no verdicts for the case, the status takes the place of its worst verdict.
    """
    old, new = (_name_worst(side.worst) if side.is_analysed else side.status.value for side in (case.old, case.new))
    if old != new:
        return f"{old or 'none'} {ARROW} {new or 'none'}"
    more = f", {count_of(len(case.verdicts), 'change')}" if case.verdicts else ""
    return f"{new or 'none'}{more}"


def name_verdict(verdict: Verdict | None) -> str:
    """Returns the verdict as the table of `check` shows it, in capitals if it is stale.

    None means that one report lacks the output; the text is then `absent`.
    """
    return "absent" if verdict is None else _name_worst(verdict)


def _name_worst(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return verdict.value.upper() if verdict is Verdict.STALE else verdict.value


def _describe_figure(case: ComparedCase, name: str) -> str:
    figure = case.find(name)
    if figure is None:
        return "-"
    counts = case.collectives if name == "collectives" else (None, None)
    old, new = (_describe_size(size, count) for size, count in zip((figure.old, figure.new), counts, strict=True))
    return new if not figure.change and None not in (figure.old, figure.new) else f"{old} {ARROW} {new}"


def _describe_size(size: int | None, count: int | None) -> str:
    if size is None:
        return "unknown"
    return render_bytes(size) if count is None else f"{count}: {render_bytes(size)}" if count else "none"


def describe_growth(figure: ComparedFigure) -> str:
    """Returns the change of a figure, such as `+64.0 MiB (+47 %)`; empty if the figure does not differ."""
    change = figure.change
    if not change or figure.old is None:
        return ""
    sign = "+" if change > 0 else "-"
    share = f" ({sign}{100 * abs(change) / figure.old:.0f} %)" if figure.old else ""
    return f"{sign}{render_bytes(abs(change))}{share}"


def list_changes(case: ComparedCase) -> Iterator[tuple[str, str]]:
    """Yields a (label, text) pair for each change that `list_cells` does not show.

    These are changes of statuses, verdicts, findings and copies.
    """
    if case.new.error:
        yield "error", case.new.error
    elif case.old.error:
        yield "error", f"in the old report: {case.old.error}"
    elif case.status_step:
        yield "status", f"was `{case.old.status.value}` and is `{case.new.status.value}`"
    for name, was, now in case.verdicts:
        yield "verdict", f"`{name}` was {name_verdict(was)} and is {name_verdict(now)}"
    for figure in case.figures:
        if figure.change:
            yield figure.name, describe_growth(figure)
    for finding in case.appeared:
        yield "new finding", describe_finding(finding)
    for finding in case.gone:
        yield "gone finding", describe_finding(finding)
    for copy in case.copies:
        yield "new copy" if not copy.before else "copy" if copy.after else "gone copy", copy.text


def describe_finding(finding: ReportedFinding) -> str:
    """Returns a finding as one line: severity, rule, place and message."""
    place = f" ({finding.place})" if finding.place else ""
    allowed = ", allowed" if finding.is_allowed else ""
    return f"{finding.severity.value}[{finding.rule}]{place}{allowed}: {finding.message}"


def list_new_findings(comparison: ReportComparison) -> tuple[tuple[ReportedFinding, tuple[str, ...]], ...]:
    """Returns the findings that only the new report has, without suppressed ones, the most severe first.

    Each is listed once, with the names of all its cases. A case that the old report lacks adds its findings too, unless
    its result is as expected.
    """
    every = [
        *((case.new, case.appeared) for case in comparison.cases),
        *((case, case.findings) for case in comparison.only_new if case.status is not Status.EXPECTED),
    ]
    found: dict[ReportedFinding, list[str]] = {}
    for case, findings in every:
        for finding in findings:
            if not finding.is_allowed:
                found.setdefault(finding, []).append(f"{case.id} on {case.target}" if case.target else case.id)
    return tuple(sorted(((one, tuple(names)) for one, names in found.items()), key=lambda one: -one[0].severity.weight))


def describe_sides(comparison: ReportComparison) -> str:
    """Returns a line that names the two reports, such as `old: main.json, jax-0.10.0; new: pr.json, jax-0.11.2`."""
    sides = (("old", comparison.old), ("new", comparison.new))
    return "; ".join(
        f"{name}: {side.label}" + (f", {side.toolchain}" if side.toolchain not in ("", side.label) else "")
        for name, side in sides
    )


def describe_counts(comparison: ReportComparison) -> str:
    """Returns the number of compared cases by grade, such as `compared 12 cases: 1 worse, 2 better, 9 the same`.

    A clause at the end counts the cases that stayed the same and are still not right.
    """
    counts = {grade: len(comparison.list_graded(grade)) for grade in Grade}
    words = {Grade.SAME: "the same"}
    parts = [f"{counts[grade]} {words.get(grade, grade.value)}" for grade in Grade if counts[grade]]
    text = f"compared {count_of(len(comparison.cases), 'case')}: {', '.join(parts)}"
    return text + _describe_lasting(comparison.list_graded(Grade.SAME))


def _describe_lasting(same: Sequence[ComparedCase]) -> str:
    """Returns a clause on those cases that did not change and are undecided, wrong or lucky in the new report, such as `; of
    the same, not clean: 1 inconclusive (outputs: 8 unknown, 2 latent)`; empty if there are none.
    """
    lasting = [case for case in same if case.new.status in _OPEN]
    if not lasting:
        return ""
    statuses = Counter(case.new.status for case in lasting)
    verdicts = Counter(
        verdict for case in lasting for verdict in case.new.outputs.values() if verdict is not Verdict.FRESH
    )
    parts = [f"{statuses[status]} {status.value}" for status in _OPEN if statuses[status]]
    outputs = [f"{verdicts[verdict]} {verdict.value}" for verdict in reversed(VERDICT_ORDER) if verdicts[verdict]]
    listed = f" (outputs: {', '.join(outputs)})" if outputs else ""
    return f"; of the same, not clean: {', '.join(parts)}{listed}"


def list_notes(comparison: ReportComparison) -> tuple[str, ...]:
    """Returns the notes on the comparison, followed by notes on the cases that only one report has."""
    only = (("old", comparison.only_old), ("new", comparison.only_new))
    alone = [
        f"only in the {name} report: {list_first([f'`{case.id}` on {case.target or "unknown"}' for case in cases], _SHOWN)}"
        for name, cases in only
        if cases
    ]
    return (*comparison.notes, *alone)


_SHOWN = 5
