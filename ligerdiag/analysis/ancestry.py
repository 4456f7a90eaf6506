"""Which entry parameters a value of the scheduled program is computed from, without running anything.

Followed backwards from the value, element by element where tuples are taken apart:
  (1) Tuples, bitcasts and tuple elements: the element. Fusions, calls and conditionals: what the called computation returns;
      of a conditional also what chooses the branch.
  (2) Loops: what they start from, what the body returns, and what the condition returns.
  (3) Parameter of a called computation: what the callers give.
  (4) Every other operation: all of its operands. A kernel that overwrites a value adds all that it reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.positions import Position
from ligerdiag.hlo.shape import ShapeIndex

_SAME = having(Trait.FORWARDS)
_TAKES_OPERANDS = having(Trait.CALLEE_TAKES_OPERANDS)


class Ancestry:
    """Entry parameters behind values of one module."""

    def __init__(self, module: HloModule, overwriting: Iterable[tuple[HloInstruction, int]]) -> None:
        """overwriting: (kernel call, operand_number) of each hidden write."""
        self._module = module
        self._callers: defaultdict[int, list[HloInstruction]] = defaultdict(list)
        for computation in module.computations.values():
            for instruction in computation.instructions:
                for callee in instruction.called_computations:
                    self._callers[callee].append(instruction)
        self._owners = {
            parameter.id: computation.id
            for computation in module.computations.values()
            for parameter in computation.parameters
        }
        self._overwritten: defaultdict[int, list[HloInstruction]] = defaultdict(list)
        for call, operand in overwriting:
            self._overwritten[_skip_names(call.operands[operand]).id].append(call)

    def find_parameters(self, value: HloInstruction, index: ShapeIndex = ()) -> frozenset[int]:
        """Numbers of the entry parameters that this leaf of the value, or all of the value, is computed from."""
        pending: list[Position] = [(value, index)]
        seen: set[tuple[int, ShapeIndex]] = set()
        found: set[int] = set()
        while pending:
            value, index = pending.pop()
            if (value.id, index) in seen:
                continue
            seen.add((value.id, index))
            if value.opcode == "parameter" and self._owners.get(value.id) == self._module.entry.id:
                found.add(value.proto.parameter_number)
            pending += self._follow(value, index)
            pending += [(given, ()) for one in self._overwritten.get(value.id, ()) for given in one.operands]
        return frozenset(found)

    def _follow(self, value: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        roots = [self._module.computations[callee].root for callee in value.called_computations]
        match value.opcode:
            case "get-tuple-element":
                yield value.operands[0], (value.proto.tuple_index, *index)
            case "tuple" if index:
                yield value.operands[index[0]], index[1:]
            case "parameter":
                yield from self._follow_parameter(value, index)
            case "while":
                yield value.operands[0], index
                yield roots[0], index
                yield roots[1], ()
            case "call" | "fusion":
                yield roots[0], index
            case "conditional":
                yield value.operands[0], ()
                for root in roots:
                    yield root, index
            case opcode if opcode in _SAME:
                yield value.operands[0], index
            case _:
                for operand in value.operands:
                    yield operand, ()

    def _follow_parameter(self, parameter: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        owner = self._owners.get(parameter.id, 0)
        for caller in self._callers.get(owner, ()):
            match caller.opcode:
                case "while":
                    yield caller.operands[0], index
                    yield self._module.computations[caller.called_computations[0]].root, index
                case "conditional":
                    yield caller.operands[1 + caller.called_computations.index(owner)], index
                case opcode if opcode in _TAKES_OPERANDS:
                    yield caller.operands[parameter.proto.parameter_number], index
                case _:
                    pass


def _skip_names(value: HloInstruction) -> HloInstruction:
    while value.opcode in _SAME:
        value = value.operands[0]
    return value
