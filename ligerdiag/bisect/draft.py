"""Mutable builder of a bisection; a partial result survives Ctrl-C."""

from dataclasses import dataclass, field
from time import perf_counter

from ligerdiag.report.bisection import Axis, Bisection, BisectionRow


@dataclass(slots=True, kw_only=True)
class Draft:
    """The findings of an axis so far; the axis appends to the lists and calls `finish`."""

    case_id: str
    target: str
    toolchain: str
    axis: Axis
    columns: tuple[str, ...] = ()
    rows: list[BisectionRow] = field(default_factory=list[BisectionRow])
    answers: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    is_unsettled: bool = False
    trials_before: int = 0
    """Number of trials that the laboratory had made before this one began, for other cases or targets."""
    compiled_before: int = 0
    started: float = field(default_factory=perf_counter)

    def finish(self, *, trials: int, compiled: int, interrupted: bool = False) -> Bisection:
        """Returns the bisection as far as it is known. trials, compiled: see `Laboratory`."""
        return Bisection(
            case_id=self.case_id,
            target=self.target,
            toolchain=self.toolchain,
            axis=self.axis,
            columns=self.columns,
            rows=tuple(self.rows),
            answers=tuple(self.answers),
            notes=tuple(self.notes),
            trials=trials - self.trials_before,
            compiled=compiled - self.compiled_before,
            seconds=perf_counter() - self.started,
            interrupted=interrupted,
            is_unsettled=self.is_unsettled,
        )
