"""The verdict without the program as written: what the schedule alone tells, and the parameters behind its values.

Without the author's order, and what each reader should see:
  (1) An output that depends neither on what a kernel wrote behind XLA's back, nor on any entry parameter from which the
      overwritten value was computed, is fresh: there is nothing of the value in it, overwritten or not, copied or computed
      once more. What the kernel returns is not free of it: XLA may have merged two calls, of which the second was to see
      what the first had written.
  (2) Every other output is unknown: whether its author wants to see the write cannot be told.
  (3) Where the overwritten value is computed from no parameter, the program may compute it once more anywhere: all outputs
      are unknown.
  (4) An output with a part that races with a kernel (see `races`) is unknown.
Without a schedule there is no order either, and every output is unknown as soon as there is a hidden write.

The parameters behind a value are found by a slice backwards, element by element where tuples are taken apart:
  (5) What only passes a value on is looked through, see `hlo.dataflow`: into fusions, calls, branches and loops, and out of
      them to all callers.
  (6) Of a conditional also what chooses the branch, of a loop also what its condition returns.
  (7) Every other operation: all of its operands. A kernel that overwrites a value adds all that it reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluations import EvaluatedPair
from ligerdiag.analysis.races import RacedRead
from ligerdiag.analysis.verdict.comparison import Cause, OutputVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import Dataflow, Position, Through, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.model.findings import Verdict

_NAMES = Through(bitcasts=True, barriers=True, tuples=True)
_MADE_FROM = replace(_NAMES, calls=True, fusions=True, branches=True, loop_entry=True, loop_back=True, arguments=True)


class BackwardSlices:
    """Finds the entry parameters behind values of one module."""

    def __init__(self, module: HloModule, overwriting: Iterable[tuple[HloInstruction, int]]) -> None:
        """overwriting: (kernel call, operand_number) of each hidden write."""
        self._module = module
        self._flow = Dataflow(module, _MADE_FROM)
        self._overwritten: defaultdict[int, list[tuple[ShapeIndex, HloInstruction]]] = defaultdict(list)
        names = Dataflow(module, _NAMES)
        for call, operand in overwriting:
            value, index = names.find_definition(call.operands[operand])
            self._overwritten[value.id].append((index, call))

    def find_parameters(self, value: HloInstruction, index: ShapeIndex = ()) -> frozenset[int]:
        """Returns the numbers of the entry parameters behind this leaf of the value, or all of it, (5) to (7)."""
        parameters = {parameter.id for parameter in self._module.entry.parameters}
        found = search([(value, index)], self._list_sources)
        return frozenset(one.proto.parameter_number for one, _ in found if one.id in parameters)

    def _list_sources(self, position: Position) -> Iterator[Position]:
        value, index = position
        passed_on = list(self._flow.list_sources(value, index))
        yield from passed_on
        if value.opcode == "while":
            yield self._module.computations[value.called_computations[1]].root, ()
        elif value.opcode == "conditional":
            yield value.operands[0], ()
        elif not passed_on:
            yield from [(operand, ()) for operand in value.operands]
        for leaf, call in self._overwritten.get(value.id, ()):
            if leaf[: len(index)] == index[: len(leaf)]:
                yield from [(operand, ()) for operand in call.operands]


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
    """Maps each output to the writes with whose overwritten value it has a parameter in common, (1) and (3)."""
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
