"""LD015 schedule-drift: around a kernel that overwrites its operand, the schedule differs from the recorded baseline."""

from collections.abc import Iterator

from ligerdiag.analysis.explain.drift import ChangeKind, Drift, compare_schedules
from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.schedule_view import Neighbourhood
from ligerdiag.rules.rule import KERNEL, DecidedBy, Example, Measured, Rule, RuleKind, check_nothing

_HELP = "if the new schedule is right, record it: `ligerdiag check --record FILE`"


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding for each hidden write around which the schedule differs from the baseline.

    If there is no such write but verdicts differ, yields one finding about the verdicts.
    """
    if measured.recorded is None or measured.facts is None:
        return
    verdicts, pairs = compare_schedules(measured.recorded, measured.facts)
    changed = tuple(change for change in verdicts if not change.is_minor)
    drifted = [(pair, tuple(change for change in pair.changes if not change.is_minor)) for pair in pairs]
    drifted = [(pair, changes) for pair, changes in drifted if changes]
    for number, (pair, changes) in enumerate(drifted):
        beside = changed if number == 0 else ()
        yield _report(f"the schedule around {pair.title} drifted", changes, beside, pair.after or pair.before)
    if changed and not drifted:
        yield _report("the verdicts drifted", changed, (), None)


def _report(
    subject: str, changes: tuple[Drift, ...], verdicts: tuple[Drift, ...], write: Neighbourhood | None
) -> Finding:
    first, *others = changes
    more = f", and {len(others)} more" if others else ""
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"{subject} from the baseline: {first.text}{more}",
        outputs=tuple(change.output for change in (*changes, *verdicts) if change.output),
        source=_find_source(changes, write),
        kernel=write.kernel if write is not None else "",
        operand=write.operand if write is not None else None,
        evidence=tuple((change.kind.value, change.text) for change in (*changes, *verdicts)),
        help=_HELP,
    )


def _find_source(changes: tuple[Drift, ...], write: Neighbourhood | None) -> SourceLine | None:
    """Returns the source line of the first changed reader that still exists, else of the kernel call; None if neither
    is known.
    """
    there = (change.source for change in changes if change.source is not None and change.kind is not ChangeKind.LOST)
    return next(there, write.source if write is not None else None)


_STEP = """\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        sums = sum_and_double(h)
{barrier}        return total + sums.sum(), h @ w.T  # h is meant to be doubled by now

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {{"total": total, "back": back{more}}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
"""

_BARRIER = "        h, sums = jax.lax.optimization_barrier((h, sums))\n"

REMOVED_BARRIER = Example(
    about="Somebody removed a barrier that looked redundant, and the product now reads before the kernel.",
    recorded=KERNEL + _STEP.format(name="released", barrier=_BARRIER, more=""),
    code=KERNEL + _STEP.format(name="released", barrier="", more=""),
)

OTHER_VALUE = Example(
    about="The program has one more output, unrelated to the kernel; the schedule around the kernel is unchanged.",
    recorded=KERNEL + _STEP.format(name="unconcerned", barrier=_BARRIER, more=""),
    code=KERNEL + _STEP.format(name="unconcerned", barrier=_BARRIER, more=', "norm": (w * w).sum()'),
)


RULE = Rule(
    id="LD015",
    name="schedule-drift",
    severity=Severity.WARNING,
    kind=RuleKind.DRIFT,
    summary="around an in-place kernel, the schedule differs from the recorded baseline",
    what_it_does="""\
With `--baseline FILE`, compares each schedule with the one that `--record FILE` wrote: the verdict of every output and,
for every operand that a kernel overwrites behind XLA's back, its readers before and after the kernel, the readers of
the value that it was copied from or that recompute it, whether the kernel gets a copy, and which of these values share
its bytes. Names, ids, line numbers and anything that does not touch the overwritten value are not compared.""",
    why="""\
An upgrade of jaxlib, another flag or a new line of code moves a reader from one side of the kernel to the other. If the
verdicts are right both times, nothing else reports it: the order was lucky before and is lucky now, in another way. If
the verdicts change, the finding shows what changed with them.""",
    what_to_do="""\
Check that the verdicts are still what you want; other rules report what is wrong with them. `ligerdiag diff` shows both
schedules side by side. If the new schedule is right, record it. A declared output has no such order to lose.""",
    limits="""\
A drift is a difference, not an error: it fails a run by itself, even if the case expects the verdicts that it has.
Cases that the baseline lacks, and entries of the baseline that were not compared, are notes. Two readers that differ
only in their names may be confused.""",
    references=("docs/drift.md",),
    bad=(REMOVED_BARRIER,),
    good=(OTHER_VALUE,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.BASELINE,
)
