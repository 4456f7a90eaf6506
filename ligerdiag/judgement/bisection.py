"""What `bisect` found out, as plain data: the only thing that a renderer sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.ending import Ending
from ligerdiag.model.findings import Verdict


class Axis(StrEnum):
    """The property of a compile that is varied."""

    MITIGATION = "mitigation"
    """The cures, beside each other, with what each costs."""
    EDGES = "edges"
    """Ties: the readers that a trivial operation has to tie to the kernel."""
    PASSES = "passes"
    """After which pass of XLA an output is no longer right."""
    FLAGS = "flags"
    """XLA's own flags."""
    TARGETS = "targets"
    """The GPU that is compiled for."""
    TOOLCHAINS = "toolchains"
    """The versions of JAX and Triton."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionRow:
    """One trial."""

    label: str
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order."""
    cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column title to text, of the columns between label and outputs."""
    word: str = ""
    """`right`, `latent`, `wrong` or `unknown`; see `Outcome.word`."""
    error: str = ""
    """One line, when it could not be compiled or judged."""
    replay: str = ""
    """How the numbers compare with the verdicts: `agrees`, `DISAGREES`, or why there are none."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs, shown below the table."""
    artifact: str = ""
    """Directory of the artifact."""
    is_answer: bool = False
    """It is what was looked for, and not only what shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """One case, varied along one axis on one target."""

    case_id: str
    target: str
    """Empty where it is what is varied."""
    toolchain: str
    """The same."""
    axis: Axis
    columns: tuple[str, ...] = ()
    """Titles of the rows' cells, in the order shown."""
    rows: tuple[BisectionRow, ...] = ()
    answers: tuple[str, ...] = ()
    """A sentence for each answer."""
    notes: tuple[str, ...] = ()
    """What was not looked at, and how the result was read."""
    trials: int = 0
    """Number of trials that were requested."""
    compiled: int = 0
    """Number of them that were in no cache."""
    seconds: float = 0.0
    """Wall time."""
    interrupted: bool = False
    """It was ended before everything was looked at; the rest is what was known until then."""
    ended_by: Ending = Ending.INTERRUPT
    """The event that ended it, if it was interrupted."""
    is_unsettled: bool = False
    """Something that an answer needs could not be analysed: exit code 3."""
