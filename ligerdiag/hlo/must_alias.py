"""Storage that values must share, worked out from XLA's rules where there is no buffer assignment.

Every value gets storage of its own, except what XLA's buffer assignment always puts together:
  (1) what passes a value on (tuples, bitcasts, calls; see `dataflow`), and the operand, the parameters, the body's result
      and the result of a loop; the results of a conditional's branches and its own;
  (2) in-place operations: dynamic-update-slice and scatter with what they update, a fusion that returns one of these with
      the parameter that it updates, all-reduce-start with its operands
      (HloDataflowAnalysis::GetInPlaceInputOutputPairs in xla/hlo/analysis/hlo_dataflow_analysis.cc);
  (3) what `output_to_operand_aliasing` of an instruction and `input_output_alias` of the module declare.
Not known is which values XLA puts into the same bytes because it holds the one for dead when the other comes.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Dataflow, Position, Through
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.positions import PASSED_ON
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

type _Key = tuple[int, ShapeIndex]

_CALLERS = having(Trait.RUNS_SCHEDULED)
_IN_PLACE = having(Trait.IN_PLACE)
_SHARED = replace(PASSED_ON, loop_back=True)


def build_must_alias_buffers(module: HloModule) -> BufferAssignment:
    """A buffer assignment with one allocation for each set of values that must share storage; sizes are 1 byte."""
    sharing = _Sharing(module)
    sharing.run()
    numbers: dict[_Key, int] = {}
    definitions: defaultdict[int, list[tuple[ShapeIndex, int]]] = defaultdict(list)
    for key in sharing.defined:
        number = numbers.setdefault(sharing.find(key), len(numbers))
        definitions[key[0]].append((key[1], number))
    parameters = {
        numbers[sharing.find((parameter.id, index))]: (parameter.proto.parameter_number, index)
        for parameter in module.entry.parameters
        for index in iterate_leaves(parameter.shape)
    }
    return BufferAssignment(
        slices=tuple([Slice(number, 0, 1) for number in range(len(numbers))]),
        definitions={key: tuple(value) for key, value in definitions.items()},
        overlapping={number: (number,) for number in range(len(numbers))},
        parameters=parameters,
        constants=frozenset(numbers[sharing.find((constant, ()))] for constant in sharing.constants),
    )


class _Sharing:
    """Sets of positions that share storage, joined step by step."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._flow = Dataflow(module, _SHARED)
        self._parent: dict[_Key, _Key] = {}
        self.defined: list[_Key] = []
        self.constants: list[int] = []

    def find(self, key: _Key) -> _Key:
        """The set's representative."""
        root = key
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while key != root:
            self._parent[key], key = root, self._parent.get(key, key)
        return root

    def run(self) -> None:
        """Join what must be joined."""
        for computation in self._find_flow():
            for instruction in computation.instructions:
                if instruction.opcode == "constant":
                    self.constants.append(instruction.id)
                for index in iterate_leaves(instruction.shape):
                    self._place(instruction, index)
                for index, operand in _find_in_place(self._module, instruction):
                    self._join((instruction, index), operand)
        for entry in self._module.input_output_alias.entries:
            parameter = self._module.entry.parameters[entry.parameter_number]
            self._join(
                (self._module.entry.root, tuple(entry.output_shape_index)),
                (parameter, tuple(entry.parameter_shape_index)),
            )

    def _find_flow(self) -> list[HloComputation]:
        """Computations whose values have storage: all that run in sequence, none that is fused or applied."""
        found = {self._module.entry.id: self._module.entry}
        pending = [self._module.entry]
        while pending:
            for instruction in pending.pop().instructions:
                for callee in instruction.called_computations if instruction.opcode in _CALLERS else ():
                    if callee not in found:
                        found[callee] = self._module.computations[callee]
                        pending.append(found[callee])
        return list(found.values())

    def _place(self, instruction: HloInstruction, index: ShapeIndex) -> None:
        """(1) for one leaf."""
        shared = [] if instruction.opcode == "all-reduce-start" else self._list_shared(instruction, index)
        if not shared:
            self.defined.append((instruction.id, index))
        for position in shared:
            self._join((instruction, index), position)

    def _list_shared(self, instruction: HloInstruction, index: ShapeIndex) -> list[Position]:
        """What it passes on; a parameter that of its first caller, and of every loop."""
        callers = self._module.callers.get(self._module.homes[instruction.id].id, ())
        asked = [caller for caller in callers if caller is callers[0] or caller.opcode == "while"]
        return list(self._flow.list_sources(instruction, index, asked))

    def _join(self, one: Position, other: Position) -> None:
        a, b = self.find((one[0].id, one[1])), self.find((other[0].id, other[1]))
        if a != b:
            self._parent[a] = b


def _find_in_place(module: HloModule, instruction: HloInstruction) -> Iterator[tuple[ShapeIndex, Position]]:
    """(2) and (3): leaves of the instruction's shape with the position that shares their storage."""
    opcode, operands = instruction.opcode, instruction.operands
    for alias in instruction.proto.output_operand_aliasing:
        if alias.operand_index < len(operands):
            yield tuple(alias.output_shape_index), (operands[alias.operand_index], tuple(alias.operand_shape_index))
    if opcode in _IN_PLACE:
        for number, index in enumerate(iterate_leaves(instruction.shape)):
            if number < len(operands):
                yield index, (operands[number], ())
    elif opcode == "fusion":
        yield from _find_fused_in_place(module, instruction)


def _find_fused_in_place(module: HloModule, fusion: HloInstruction) -> Iterator[tuple[ShapeIndex, Position]]:
    flow = Dataflow(module, Through(tuples=True))
    root = module.computations[fusion.called_computations[0]].root
    for index in iterate_leaves(fusion.shape):
        value, rest = flow.find_definition(root, index)
        if value.opcode not in ("dynamic-update-slice", "scatter") or (value.opcode == "scatter" and len(rest) > 1):
            continue
        updated, inner = flow.find_definition(value.operands[rest[0] if rest else 0])
        if updated.opcode == "parameter":
            yield index, (fusion.operands[updated.proto.parameter_number], inner)
