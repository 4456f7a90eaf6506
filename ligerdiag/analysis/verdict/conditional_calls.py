"""Outputs that depend on what a kernel returns whose call the schedule makes under a condition, or never.

The dependence sets tell what a kernel overwrites. What it returns is a value that XLA knows, and is taken to be there. Where
the program makes the call always, and the schedule where it may not run, it may not be there either: such an output is
unknown, and stale where the call surely never runs.
"""

from collections.abc import Iterable
from dataclasses import replace

from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.comparison import Cause
from ligerdiag.analysis.verdict.verdicts import Verdicts
from ligerdiag.model.findings import Verdict


def judge_results(verdicts: Verdicts, pair: EvaluatedPair, run: Evaluations) -> Verdicts:
    """Returns the verdicts with those outputs made worse."""
    matching = pair.matching
    if not pair.has_program or not (matching.idle or matching.conditional):
        return verdicts
    outputs = dict(verdicts.outputs)
    for indices, verdict in ((matching.conditional, Verdict.UNKNOWN), (matching.idle, Verdict.STALE)):
        for index, reached in _find_reached(indices, pair, run):
            for (name, output), is_reached in zip(outputs.items(), reached, strict=False):
                if is_reached:
                    outputs[name] = output.join((Cause(index, verdict),))
    return replace(verdicts, outputs=outputs)


def _find_reached(
    indices: Iterable[int], pair: EvaluatedPair, run: Evaluations
) -> Iterable[tuple[int, tuple[bool, ...]]]:
    """Yields each write and, output by output, whether that depends on a result of its call, in the program."""
    for index in sorted(indices):
        path = pair.writes[index].tag_path
        if not path:
            yield index, (True,) * len(pair.intended.outputs)
            continue
        mark = pair.space.mark(("results of", path))
        yield index, tuple([bool(labels & mark) for labels in run.run_intended({path: mark}).outputs])
