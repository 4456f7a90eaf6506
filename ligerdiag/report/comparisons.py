"""Results of `bisect` and `diff`, which compare several compiles of one program, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ligerdiag.ending import Ending
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import Fate, ScheduleFacts
from ligerdiag.report.memory_words import MemoryFigure, compare_memory, is_small

if TYPE_CHECKING:
    from ligerdiag.analysis.explain.drift import Drift, NeighbourhoodPair


class Axis(StrEnum):
    """The property of a compile that `bisect` varies."""

    MITIGATION = "mitigation"
    """The measures against a hidden write, with the cost of each."""
    EDGES = "edges"
    """The readers that a trivial operation has to tie to the kernel."""
    PASSES = "passes"
    """The pass of XLA that makes an output wrong."""
    FLAGS = "flags"
    """XLA's flags."""
    TARGETS = "targets"
    """The GPU that XLA compiles for."""
    TOOLCHAINS = "toolchains"
    """The versions of JAX and Triton."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionRow:
    """One trial: one way to compile the case, and what became of its outputs."""

    label: str
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order."""
    cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column title to text, for the columns between label and outputs."""
    word: str = ""
    """`right`, `latent`, `wrong` or `unknown`; see `Outcome.word`."""
    error: str = ""
    """One line, if the trial could not be analysed."""
    replay: str = ""
    """How the numbers compare with the verdicts: `agrees`, `DISAGREES`, or why there are none."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs, shown below the table."""
    artifact: str = ""
    """Directory of the artifact."""
    is_answer: bool = False
    """The row is an answer, and not only evidence for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """One case, varied along one axis on one target."""

    case_id: str
    target: str
    """Empty where the axis varies it."""
    toolchain: str
    """Empty where the axis varies it."""
    axis: Axis
    columns: tuple[str, ...] = ()
    """Titles of the cells of the rows, in order."""
    rows: tuple[BisectionRow, ...] = ()
    answers: tuple[str, ...] = ()
    """A sentence for each answer."""
    notes: tuple[str, ...] = ()
    """Limits of the search, and notes on how to read the result."""
    trials: int = 0
    """Number of trials."""
    compiled: int = 0
    """Number of trials that were in no cache."""
    seconds: float = 0.0
    """Wall time, in seconds."""
    interrupted: bool = False
    """The search was ended early; the rest is what was known by then."""
    ended_by: Ending = Ending.INTERRUPT
    """The event that ended it, if it was interrupted."""
    is_unsettled: bool = False
    """Something that an answer needs could not be analysed: exit code 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One of the two compiles."""

    label: str
    """Text that distinguishes it from the other side: a target, a toolchain, a path."""
    report: CaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One program, compiled twice."""

    name: str
    first: ComparedSide
    second: ComparedSide
    verdicts: tuple[tuple[str, Verdict | None, Verdict | None], ...] = ()
    """(output, verdict on each side): outputs of the first side in its order, then those of the second alone."""
    writes: "tuple[NeighbourhoodPair, ...]" = ()
    changes: "tuple[Drift, ...]" = ()
    """Changes of verdicts, then those of every write."""
    memory: tuple[MemoryFigure, ...] = ()
    """The memory of both sides, which does not count as a difference; empty if neither has any."""

    @property
    def differs(self) -> bool:
        """Returns whether a change matters."""
        return any(not change.is_minor for change in self.changes)

    @property
    def differs_in_memory(self) -> bool:
        """Returns whether the two sides have figures that differ, and one of them needs more than little memory."""
        known = [side.report.memory for side in self.sides if side.report.memory is not None]
        return any(figure.change for figure in self.memory) and not all(map(is_small, known))

    @property
    def error(self) -> str:
        """Returns why there is nothing to compare; empty when there is."""
        return "; ".join(f"{side.label}: {side.report.error}" for side in self.sides if side.report.error)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Returns one line for each write whose place is unknown on a side."""
        return tuple(
            f"{side.label}: the time at which {one.title} is written is unknown"
            for side in self.sides
            for one in side.report.neighbourhoods
            if one.fate is Fate.UNPLACED
        )

    @property
    def sides(self) -> tuple[ComparedSide, ComparedSide]:
        """Returns both sides."""
        return self.first, self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceReport:
    """A whole run of `diff`."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    """Wall time, in seconds."""
    interrupted: bool = False
    """Ctrl-C ended the run; `differences` holds those of which both sides were done."""


def compute_difference(name: str, first: ComparedSide, second: ComparedSide) -> Difference:
    """Returns the differences between the two, in both directions."""
    from ligerdiag.analysis.explain.drift import compare_schedules  # imports the analysis, which `--help` does not need

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
        memory=compare_memory(first.report.memory, second.report.memory),
    )
