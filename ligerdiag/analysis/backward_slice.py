"""Which entry parameters a value of the scheduled program is computed from, without running anything.

The slice is taken backwards from the value, element by element where tuples are taken apart:
  (1) What only passes a value on is looked through, see `hlo.dataflow`: into fusions, calls, branches and loops, and out of
      them to all callers.
  (2) Of a conditional also what chooses the branch, of a loop also what its condition returns.
  (3) Every other operation: all of its operands. A kernel that overwrites a value adds all that it reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ligerdiag.hlo.dataflow import Dataflow, Position, Through, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex

_NAMES = Through(bitcasts=True, barriers=True, tuples=True)
_MADE_FROM = Through(
    bitcasts=True,
    barriers=True,
    tuples=True,
    calls=True,
    fusions=True,
    branches=True,
    loop_entry=True,
    loop_back=True,
    arguments=True,
)


class BackwardSlices:
    """Entry parameters behind values of one module."""

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
        """Numbers of the entry parameters that this leaf of the value, or all of the value, is computed from."""
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
