"""What `diff` found out, as plain data: the only thing that a renderer sees."""

from dataclasses import dataclass

from ligerdiag.analysis.explain.drift import Drift, NeighbourhoodPair, compare_schedules
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import Fate, ScheduleFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One of the two compiles."""

    label: str
    """The label that tells it from the other side: a target, a toolchain, a path."""
    report: CaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One program, compiled twice."""

    name: str
    first: ComparedSide
    second: ComparedSide
    verdicts: tuple[tuple[str, Verdict | None, Verdict | None], ...] = ()
    """(output, verdict on each side), the first side's in its order, then those that the second alone has."""
    writes: tuple[NeighbourhoodPair, ...] = ()
    changes: tuple[Drift, ...] = ()
    """Of verdicts, then those of every write."""

    @property
    def differs(self) -> bool:
        """Returns whether a change matters."""
        return any(not change.is_minor for change in self.changes)

    @property
    def error(self) -> str:
        """Returns why there is nothing to compare; empty when there is."""
        return "; ".join(f"{side.label}: {side.report.error}" for side in self.sides if side.report.error)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Returns what is unknown about a side, one line each."""
        return tuple(
            f"{side.label}: where {one.title} is written could not be told"
            for side in self.sides
            for one in side.report.neighbourhoods
            if one.fate is Fate.UNPLACED
        )

    @property
    def sides(self) -> tuple[ComparedSide, ComparedSide]:
        """Both."""
        return self.first, self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceReport:
    """A whole run."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    """Wall time."""
    interrupted: bool = False
    """Ctrl-C came first; `differences` holds those of which both sides were done."""


def compute_difference(name: str, first: ComparedSide, second: ComparedSide) -> Difference:
    """Returns the differences between the two, in both directions."""
    if first.report.error or second.report.error:
        return Difference(name=name, first=first, second=second)
    before, after = (
        ScheduleFacts(outputs=side.report.outputs, neighbourhoods=side.report.neighbourhoods)
        for side in (first, second)
    )
    changes, writes = compare_schedules(before, after)
    outputs = dict.fromkeys((*before.outputs, *after.outputs))
    return Difference(
        name=name,
        first=first,
        second=second,
        verdicts=tuple((output, before.outputs.get(output), after.outputs.get(output)) for output in outputs),
        writes=writes,
        changes=(*changes, *(change for pair in writes for change in pair.changes)),
    )
