"""What can be said without the program: no order of the author's, no value that he meant, only the schedule.

  (1) An output that depends neither on what a kernel wrote behind XLA's back, nor on any entry parameter from which the
      overwritten value was computed, is fresh: there is nothing of the value in it, overwritten or not, copied or computed
      once more. What the kernel returns is not free of it: XLA may have merged two calls, of which the second was to see
      what the first had written.
  (2) Every other output is unknown: whether its author wants to see the write is not to be told.
  (3) Where the overwritten value is computed from no parameter, anyone may have computed it once more: all are unknown.
  (4) An output with a part that races with a kernel (see `races`) is unknown.
Without a schedule there is no order either, and every output is unknown as soon as there is a hidden write.
"""

from collections.abc import Mapping

from ligerdiag.analysis.backward_slice import BackwardSlices
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.races import RacedRead
from ligerdiag.analysis.verdict.comparison import Cause, OutputVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import Verdict
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import iterate_leaves


def judge_outputs_alone(pair: EvaluatedPair, output_names: tuple[str, ...]) -> Mapping[str, OutputVerdict]:
    """Decides what each output is by what the schedule alone tells."""
    unknown: Mapping[str, set[int]] = {name: {write.index for write in pair.writes} for name in output_names}
    if pair.writes and pair.optimized.is_scheduled:
        unknown = _find_unknown(pair.optimized, output_names, pair.writes)
    unplaced = {write.index for write in pair.matching.unplaced}
    actual = pair.actual.outputs
    return {
        name: _judge(pair, actual[number] if number < len(actual) else 0, unknown[name] | unplaced)
        for number, name in enumerate(output_names)
    }


def _find_unknown(module: HloModule, names: tuple[str, ...], writes: tuple[HiddenWrite, ...]) -> Mapping[str, set[int]]:
    """Output name to indices of the writes for which it has something in common with the overwritten value, (1) and (3)."""
    slices = BackwardSlices(module, [(write.call, write.operand) for write in writes])
    overwritten = {w.index: slices.find_parameters(w.call.operands[w.operand]) for w in writes}
    root = module.entry.root
    found: dict[str, set[int]] = {}
    for name, index in zip(names, iterate_leaves(root.shape), strict=True):
        own = slices.find_parameters(root, index)
        found[name] = {write for write, numbers in overwritten.items() if not numbers or own & numbers}
    return found


def _judge(pair: EvaluatedPair, labels: Labels, unknown: set[int]) -> OutputVerdict:
    raced = [key for key in pair.space.marks_in(labels) if isinstance(key, RacedRead)]
    touched = unknown | {key.write for key in raced}
    causes = tuple(
        [
            Cause(write.index, Verdict.UNKNOWN, raced=tuple([key for key in raced if key.write == write.index]))
            for write in pair.writes
            if write.index in touched or labels & pair.space.all_fresh(write.index)
        ]
    )
    return OutputVerdict(Verdict.UNKNOWN if causes else Verdict.FRESH, causes)
