"""A rule: its id, its page, its examples and its check. One rule a file; `registry.py` finds them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from ligerdiag.analysis.context import Context
from ligerdiag.findings import Finding, Severity, Verdict
from ligerdiag.hazards.measured import Measured


class Settled(Enum):
    """What it takes to say for certain that a rule fires, or does not."""

    STATICALLY = "statically"
    BY_REPLAY = "by replay"
    BY_DEVICE = "by device"
    BY_BASELINE = "by baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A whole case file that is both a test and the documentation of a rule."""

    about: str
    """One sentence: what it shows."""
    code: str
    """Python source that defines `CASE`."""
    target: str = "h100"
    recorded: str = ""
    """The file as it was when the baseline was recorded that it is checked against; empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A real report that a rule stands for, and what was rebuilt of it."""

    report: str
    """`owner/repository#number`, or where else it stands."""
    case: str
    """Id of the case in cases/ that stands for it; empty where there is none."""
    reproduced: str
    """What was seen of it here; a phrase, no full stop."""
    missing: str
    """What was not; a phrase, no full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One hazard. The texts become docs/rules/<id>-<name>.md and `ligerdiag explain <id>`."""

    id: str
    name: str
    """Reads as "allow NAME"."""
    severity: Severity
    summary: str
    """One line, lower case, no final stop."""
    what_it_does: str
    why: str
    what_to_do: str
    limits: str
    references: tuple[str, ...]
    bad: tuple[Example, ...]
    """Each must make the rule fire."""
    good: tuple[Example, ...]
    """Each must not."""
    check: Callable[[Context], Iterable[Finding]]
    """The rule's findings from the program alone."""
    reproduced: tuple[Reproduction, ...] = ()
    """The reports behind the rule, each as near as it could be rebuilt."""
    measure: Callable[[Measured], Iterable[Finding]] | None = None
    """The rule's findings once there are numbers: all of them, those of `check` included that stay. None: `check` stands."""
    settled: Settled = Settled.STATICALLY
    explains: Verdict | None = None
    """The verdict that its findings give the reasons of: every output with that verdict has a finding of such a rule, unless
    the analysis does not know why."""


def check_nothing(context: Context) -> Iterable[Finding]:
    """The `check` of a rule that only numbers can tell."""
    del context
    return ()
