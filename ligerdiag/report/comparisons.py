"""Results of `bisect` and `diff`, which compare several compiles of one program, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ligerdiag.ending import Ending
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import Fate, ScheduleFacts
from ligerdiag.model.shown import Shown
from ligerdiag.report.words.memory_words import MemoryFigure, compare_memory, is_small
from ligerdiag.text import compute_printable, count_of

if TYPE_CHECKING:
    from ligerdiag.analysis.explain.drift import Drift, NeighbourhoodPair


class Axis(StrEnum):
    """The property that a bisection varies from one compile to the next, such as XLA's flags."""

    MITIGATION = "mitigation"
    """The measures against a hidden write, such as declaring it, and the cost of each."""
    EDGES = "edges"
    """The readers of a kernel's result. A trial ties some of them to the kernel by a trivial operation, so that they
    run after it.
    """
    PASSES = "passes"
    """XLA's passes, to find the pass that makes an output wrong."""
    FLAGS = "flags"
    """The flags of XLA."""
    TARGETS = "targets"
    """The target: the GPU that XLA compiles for."""
    TOOLCHAINS = "toolchains"
    """The toolchain: the versions of JAX and Triton."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionRow:
    """One compile of a bisection: how it differs from the others, and its verdicts."""

    label: str
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Maps each output name to its verdict, in the program's order."""
    cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the title of a column to the text of its cell, for the columns between the label and the outputs."""
    word: str = ""
    """`right`, `latent`, `wrong` or `unknown`: a summary of the outputs; see `Outcome.word`."""
    error: str = ""
    """One line that says why the trial could not be analysed; empty if it was analysed."""
    replay: str = ""
    """How the replayed numbers compare with the verdicts: `agrees`, `DISAGREES`, or why there are no numbers."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs that are shown below the table."""
    artifact: str = ""
    """Directory of the artifact that the trial compiled."""
    is_answer: bool = False
    """Whether the row shows one of `Bisection.answers`, such as the pass that makes an output wrong; other rows only
    document the search.
    """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bisection(Shown):
    """The result of a bisection: one case on one target, compiled with one property varied."""

    case_id: str
    target: str
    """Name of the target; empty where the axis varies the target."""
    toolchain: str
    """Name of the toolchain; empty where the axis varies the toolchain."""
    axis: Axis
    columns: tuple[str, ...] = ()
    """Titles of the columns in `BisectionRow.cells`, in order."""
    rows: tuple[BisectionRow, ...] = ()
    answers: tuple[str, ...] = ()
    """One sentence for each answer that the bisection found."""
    notes: tuple[str, ...] = ()
    """Limits of the search, and hints on how to read the result."""
    trials: int = 0
    """Number of trials, each of which compiles the case in one way."""
    compiled: int = 0
    """Number of trials that had to be compiled because no cache had them."""
    seconds: float = 0.0
    """Wall time, in seconds."""
    interrupted: bool = False
    """Whether the search was ended early; the other fields then hold what was known by then."""
    ended_by: Ending = Ending.INTERRUPT
    """The event that ended the search, if `interrupted`."""

    def __repr__(self) -> str:
        answers = "; ".join(self.answers) or "no answer"
        more = "; ended early" if self.interrupted else ""
        return compute_printable(f"<Bisection of {self.case_id} over {self.axis.value}: {answers}{more}>")

    is_unsettled: bool = False
    """Whether a trial on which an answer depends could not be analysed; the exit code is then 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One of the two compiles that `diff` compares."""

    label: str
    """Text that distinguishes this compile from the other one: a target, a toolchain or a path."""
    report: CaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The differences between two compiles of one program."""

    name: str
    first: ComparedSide
    second: ComparedSide
    verdicts: tuple[tuple[str, Verdict | None, Verdict | None], ...] = ()
    """(output, first verdict, second verdict) for each output: first the outputs of the first compile, in its order,
    then the outputs that only the second compile has.
    """
    writes: "tuple[NeighbourhoodPair, ...]" = ()
    changes: "tuple[Drift, ...]" = ()
    """The changes of verdicts, followed by the changes around each hidden write."""
    memory: tuple[MemoryFigure, ...] = ()
    """The memory figures of both compiles; a change of memory alone does not count as a difference. Empty if neither
    compile has figures.
    """

    @property
    def differs(self) -> bool:
        """Returns whether there is a change that matters. A reader that moved to another fusion, or an output that only
        one compile has, does not matter.
        """
        return any(not change.is_minor for change in self.changes)

    @property
    def differs_in_memory(self) -> bool:
        """Returns whether the memory figures of the two compiles differ.

        Returns False if both compiles need too little memory for the report to mention (`is_small`).
        """
        known = [side.report.memory for side in self.sides if side.report.memory is not None]
        return any(figure.change for figure in self.memory) and not all(map(is_small, known))

    @property
    def error(self) -> str:
        """Returns why the two compiles cannot be compared; empty if they can."""
        return "; ".join(f"{side.label}: {side.report.error}" for side in self.sides if side.report.error)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Returns one line for each hidden write whose time in the schedule is unknown in one of the compiles."""
        return tuple(
            f"{side.label}: the time at which {one.title} is written is unknown"
            for side in self.sides
            for one in side.report.neighbourhoods
            if one.fate is Fate.UNPLACED
        )

    @property
    def sides(self) -> tuple[ComparedSide, ComparedSide]:
        """Returns the two compiles that are compared, the first one first."""
        return self.first, self.second


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DifferenceReport(Shown):
    """The result of one run of `diff`."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    """Wall time, in seconds."""
    interrupted: bool = False
    """Whether Ctrl-C ended the run; `differences` then holds only the programs of which both compiles were done."""

    def __repr__(self) -> str:
        more = "; ended early" if self.interrupted else ""
        return f"<DifferenceReport of {count_of(len(self.differences), 'program')}{more}>"


def compute_difference(name: str, first: ComparedSide, second: ComparedSide) -> Difference:
    """Returns the differences between two compiles of the program `name`.

    They are the changes from the first compile to the second, and the outputs and writes that only one of them has. If a
    compile could not be analysed, the result has only the two sides.
    """
    from ligerdiag.analysis.explain.drift import compare_schedules  # imports the analysis, which `--help` does not need

    if first.report.error or second.report.error:
        return Difference(name=name, first=first, second=second)
    before, after = (
        ScheduleFacts(
            outputs=side.report.outputs,
            neighbourhoods=side.report.neighbourhoods,
            kernel_calls=side.report.kernel_calls,
        )
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
