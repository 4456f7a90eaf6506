"""Judges outputs that depend on the result of a kernel that the schedule calls only under a condition, or never.

Dependence sets describe hidden writes. A kernel's result is a value that XLA knows, and they take it to be there. If
the program always makes the call and the schedule may skip it, the result may be missing: such an output is unknown, or
stale if the call certainly never runs.
"""

from collections.abc import Iterable
from dataclasses import replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.verdict.comparison import Cause
from ligerdiag.analysis.verdict.verdicts import Verdicts
from ligerdiag.model.findings import Verdict


def judge_results(verdicts: Verdicts, pair: EvaluatedPair, evaluator: Evaluator) -> Verdicts:
    """Returns the verdicts, with these outputs made worse."""
    matching = pair.matching
    if not pair.has_program or not (matching.idle or matching.conditional):
        return verdicts
    outputs = dict(verdicts.outputs)
    for indices, verdict in ((matching.conditional, Verdict.UNKNOWN), (matching.idle, Verdict.STALE)):
        for index, reached in _find_reached(indices, pair, evaluator):
            for (name, output), is_reached in zip(outputs.items(), reached, strict=False):
                if is_reached:
                    outputs[name] = output.join((Cause(index, verdict),))
    return replace(verdicts, outputs=outputs)


def _find_reached(
    indices: Iterable[int], pair: EvaluatedPair, evaluator: Evaluator
) -> Iterable[tuple[int, tuple[bool, ...]]]:
    """Yields each write with, for each output, whether it depends on a result of the write's call in the program."""
    for index in sorted(indices):
        path = pair.writes[index].tag_path
        if not path:
            yield index, (True,) * len(pair.intended.outputs)
            continue
        mark = pair.space.mark(("results of", path))
        yield index, tuple([bool(labels & mark) for labels in evaluator.run_intended({path: mark}).outputs])
