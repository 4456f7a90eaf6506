"""LD034 memory-drift: the memory or the copies of the program differ from the recorded baseline."""

from collections.abc import Iterator, Sequence

from ligerdiag.analysis.explain.memory_drift import CopyChange, compare_copies, compare_figures
from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.memory_limits import record_copy
from ligerdiag.rules.rule import DecidedBy, Example, Measured, Rule, RuleKind, check_nothing
from ligerdiag.text import count_of

_HELP = "if the new figures are right, record them: `ligerdiag check --record FILE`"
_SHOWN = 5


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding about all memory figures that differ from the baseline by more than the tolerance."""
    before = measured.recorded.memory if measured.recorded is not None else None
    after = measured.facts.memory if measured.facts is not None else None
    if before is None or after is None:
        return
    figures = compare_figures(before, after)
    if not figures:
        return
    copies = compare_copies(before.copies, after.copies)
    first, *others = figures
    new = next((copy for copy in copies if not copy.before), None)
    more = f", and {count_of(len(others), 'more figure')}" if others else ""
    there = f"; a copy appeared: {new.text}" if new is not None else ""
    yield Finding(
        rule=RULE.id,
        severity=RULE.severity if first.is_worse else Severity.NOTE,
        message=f"the memory drifted from the baseline: {first.text}{more}{there}",
        source=_find_source(measured.memory, copies),
        evidence=(
            *(("figure", change.text) for change in figures),
            *((_name_change(change), change.text) for change in copies[:_SHOWN]),
        ),
        help=_HELP,
    )


def _name_change(change: CopyChange) -> str:
    if not change.before:
        return "new copy"
    return "copy" if change.after else "gone copy"


def _find_source(memory: MemoryUse | None, copies: Sequence[CopyChange]) -> SourceLine | None:
    """Returns the source line of the first copy that grew, else that of the memory's peak; None if unknown."""
    if memory is None:
        return None
    for change in copies:
        for copy in memory.copies:
            seen = record_copy(copy)
            if change.is_worse and (seen.cause, seen.file, seen.line) == (change.cause, change.file, change.line):
                return copy.line
    return memory.peak_line


_STEP = """\
import jax

from ligerdiag import Arg, Case


def step(cache, row):
    def body(number, cache):
        return jax.lax.dynamic_update_slice(cache, row, (number, 0))

    return jax.lax.fori_loop(0, 64, body, cache)


CASE = Case(name="{name}", function=step, args=(Arg(shape=(512, 512){donate}), Arg(shape=(1, 512))))
"""
_DONATE = ", donate=True"

NO_LONGER_DONATED = Example(
    about="The cache was donated when the baseline was recorded, and is not any more: XLA copies it.",
    recorded=_STEP.format(name="decoded", donate=_DONATE),
    code=_STEP.format(name="decoded", donate=""),
)

AS_BEFORE = Example(
    about="The loop was written in another way, which needs the same memory.",
    recorded=_STEP.format(name="decoded_again", donate=_DONATE),
    code=_STEP.format(name="decoded_again", donate=_DONATE).replace("(number, 0)", "(63 - number, 0)"),
)

RULE = Rule(
    id="LD034",
    name="memory-drift",
    severity=Severity.WARNING,
    kind=RuleKind.DRIFT,
    summary="memory or copied bytes differ from the recorded baseline",
    what_it_does="""\
With `--baseline FILE`, compares the memory of each program with the figures that `--record FILE` wrote: the peak of the
live bytes, all bytes that XLA reserves, the temporaries, and the bytes that one call copies. A figure drifts if it
differs by more than 2 % and by more than 64 KiB. The finding names the copies that appeared, by cause and line.""",
    why="""\
An upgrade of jaxlib, another flag or a new line of code can double the temporaries or add a copy to every step. Every
output is still right, so no test fails: the step is slower, or the job runs out of memory at the next larger batch.""",
    what_to_do="""\
The copies that appeared have rules of their own, which say why XLA makes them. `ligerdiag compare OLD NEW` shows two
reports side by side. If the new figures are right, record them.""",
    limits="""\
Less memory is a drift, too, and only a note. A baseline of an older version has no memory: a note says so, and nothing
is compared. A drift fails a run by itself, even if the case expects the verdicts that it has. Copies of one cause on one
line count as one.""",
    references=("docs/drift.md", "docs/compare.md"),
    bad=(NO_LONGER_DONATED,),
    good=(AS_BEFORE,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.BASELINE,
)
