"""Outputs that would be worse if what is nobody's operation carried the original of a write: they are unknown.

The schedule is evaluated once more, with the ORIG labels of `Belief.find_possible_carriers`. Where an output is then worse
about a write than it was, whether it is right hangs on a name that is missing, or that cannot be believed.
"""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.analysis.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluations import Evaluations
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.verdict.comparison import Comparison, OutputVerdict
from ligerdiag.findings import VERDICT_ORDER, Verdict


def add_unidentified(
    ambiguities: Ambiguities,
    possible: Mapping[int, Labels],
    outputs: Mapping[str, OutputVerdict],
    *,
    pair: EvaluatedPair,
    comparison: Comparison,
    run: Evaluations,
) -> Ambiguities:
    """Returns the ambiguities, with those about what may carry an original. outputs: as they are without ambiguities."""
    if not possible:
        return ambiguities
    carried = {number: run.carried.get(number, 0) | possible.get(number, 0) for number in (*run.carried, *possible)}
    actual = replace(run, carried=carried).run_actual(frozenset(), sights=False)
    added = dict(ambiguities)
    for (name, output), wanted, seen in zip(outputs.items(), pair.intended.outputs, actual.outputs, strict=False):
        were = {cause.write: cause.verdict for cause in output.causes}
        for cause in comparison.compare(wanted, seen).causes:
            if _is_worse(cause.verdict, were.get(cause.write, Verdict.FRESH)):
                original = run.space.all_original(cause.write)
                first = min(number for number, labels in possible.items() if labels & original)
                ambiguity = Ambiguity(cause.write, Reason.UNIDENTIFIED, first)
                added[name] = added.get(name, frozenset()) | {ambiguity}
    return added


def _is_worse(verdict: Verdict, was: Verdict) -> bool:
    """Whether it would be, and it was not wrong anyway."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)
