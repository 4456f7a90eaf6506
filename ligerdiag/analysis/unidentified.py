"""Outputs that would be worse if what is nobody's operation carried the original of a write: they are unknown.

The schedule is evaluated once more, with the ORIG labels of `Belief.find_possible_carriers`. Where an output is then worse
about a write than it was, whether it is right hangs on a name that is missing, or that cannot be believed.
"""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.analysis.comparison import Comparison, OutputComparison
from ligerdiag.analysis.doubts import Doubt, Reason
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.runner import Runner
from ligerdiag.analysis.settling import Doubts
from ligerdiag.findings import VERDICT_ORDER, Verdict


def add_unidentified(
    doubts: Doubts,
    possible: Mapping[int, Labels],
    outputs: Mapping[str, OutputComparison],
    *,
    intended: Intended,
    comparison: Comparison,
    run: Runner,
) -> Doubts:
    """The doubts, with those about what may carry an original. outputs: as they are without doubts."""
    if not possible:
        return doubts
    carried = {number: run.carried.get(number, 0) | possible.get(number, 0) for number in (*run.carried, *possible)}
    actual = replace(run, carried=carried).run_actual(frozenset(), sights=False)
    added = dict(doubts)
    for (name, output), wanted, seen in zip(outputs.items(), intended.outputs, actual.outputs, strict=False):
        were = {cause.write: cause.verdict for cause in output.causes}
        for cause in comparison.compare(wanted, seen).causes:
            if _is_worse(cause.verdict, were.get(cause.write, Verdict.FRESH)):
                original = run.space.all_original(cause.write)
                first = min(number for number, labels in possible.items() if labels & original)
                doubt = Doubt(cause.write, Reason.UNIDENTIFIED, first)
                added[name] = added.get(name, frozenset()) | {doubt}
    return added


def _is_worse(verdict: Verdict, was: Verdict) -> bool:
    """Whether it would be, and it was not wrong anyway."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)
