"""Unknown propagation: ambiguities, and instructions without a believable name, make outputs unknown.

(1) An output is unknown for a hidden write W when it depends on an ambiguity about W (see `ambiguities`), whatever else W
    does to it. Reads that are blamed for such an output are no longer blamed for it. What another write does to the same
    output stands.
(2) The schedule is evaluated once more, with the ORIG labels of `Belief.find_possible_carriers`. An output that is then
    worse about a write than it was depends on a name that is missing, or that cannot be believed: it is ambiguous.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.blame import Blamed, ReadFinding
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.model.findings import VERDICT_ORDER, Verdict


def add_unidentified(
    ambiguities: Ambiguities,
    possible: Mapping[int, Labels],
    outputs: Mapping[str, OutputVerdict],
    *,
    pair: EvaluatedPair,
    comparison: Comparison,
    run: Evaluations,
) -> Ambiguities:
    """Adds the ambiguities of (2). outputs: as they are without ambiguities."""
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
    """Whether it would be worse, and was not wrong anyway."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)


def propagate(found: Blamed, ambiguities: Ambiguities) -> Blamed:
    """Makes outputs unknown by (1), and takes back the reads that were blamed for them."""
    unclear = {(name, one.write) for name, about in ambiguities.items() for one in about}
    if not unclear:
        return found
    return Blamed(
        {name: _make_unknown(name, output, unclear) for name, output in found.outputs.items()},
        _keep_certain(found.stale, unclear),
        _keep_certain(found.clobbered, unclear),
    )


def add_crowded(ambiguities: Ambiguities, crowded: Mapping[str, set[int]]) -> Ambiguities:
    """Adds an ambiguity for each question that the search has given up."""
    return {
        name: ambiguities.get(name, frozenset())
        | {Ambiguity(write, Reason.TOO_MANY, 0) for write in crowded.get(name, ())}
        for name in (*ambiguities, *[name for name in crowded if name not in ambiguities])
    }


def _keep_certain(reads: Iterable[ReadFinding], unclear: set[tuple[str, int]]) -> tuple[ReadFinding, ...]:
    """Keeps the outputs that reads surely reach, and the reads that surely reach one."""
    settled = [
        replace(read, outputs=tuple([name for name in read.outputs if (name, read.write.index) not in unclear]))
        for read in reads
    ]
    return tuple([read for read in settled if read.outputs])


def _make_unknown(name: str, output: OutputVerdict, unclear: set[tuple[str, int]]) -> OutputVerdict:
    kept = tuple([cause for cause in output.causes if (name, cause.write) not in unclear])
    unknown = tuple([Cause(write, Verdict.UNKNOWN) for one, write in sorted(unclear) if one == name])
    causes = (*kept, *unknown)
    return OutputVerdict(find_worst(cause.verdict for cause in causes), causes)
