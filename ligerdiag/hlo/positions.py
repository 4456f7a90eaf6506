"""Positions: where a value stands that an instruction does not define but passes on.

XLA's buffer assignment lists definitions only. Tuples, bitcasts, loop results and parameters of called computations are
other positions of a value defined elsewhere; this follows HloDataflowAnalysis (xla/hlo/analysis/hlo_dataflow_analysis.h):
  (1) bitcast, opt-barrier, domain, add-dependency: the operand's position.
  (2) tuple and get-tuple-element: the element's.
  (3) while: the body's phi where there is one (a definition), else the operand's; conditional and call: the callee's root.
  (4) parameter of a called computation: the caller's operand.
  (5) async-start {0}: its operands; {1}: the callee's root; async-update and async-done: those of their start.
  (6) other -start and -done pairs: operands at {0}, results at {1}, where the start does not have the shape of the done.
"""

from collections.abc import Mapping

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.operand_aliases import InvalidAlias
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

type Position = tuple[HloInstruction, ShapeIndex]

_SAME = having(Trait.FORWARDS)
_RESULT_FIRST = having(Trait.RESULT_FIRST)
_MAX_STEPS = 100_000


class Positions:
    """Slice numbers by position, resolved on demand and kept."""

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._module = module
        self._buffers = buffers
        self._definitions: dict[int, dict[ShapeIndex, int]] = {}
        self._found: dict[tuple[int, ShapeIndex], int | None] = {}
        self._callers: Mapping[int, HloInstruction] | None = None
        self._leaves: dict[int, tuple[int | None, ...]] = {}

    def locate(self, instruction: HloInstruction) -> tuple[int | None, ...]:
        """Slice number of each leaf of the instruction's shape, in order; None where there is no place."""
        found = self._leaves.get(instruction.id)
        if found is None:
            defined = self._buffers.definitions.get(instruction.id, ())
            if len(defined) == 1 and not defined[0][0] and not is_tuple(instruction.shape):
                found = (defined[0][1],)
            else:
                found = tuple([self.find(instruction, index) for index in iterate_leaves(instruction.shape)])
            self._leaves[instruction.id] = found
        return found

    def find(self, instruction: HloInstruction, index: ShapeIndex) -> int | None:
        """Slice number where this position stands."""
        found = self._found
        passed: list[tuple[int, ShapeIndex]] = []
        number: int | None = None
        position: Position | None = (instruction, index)
        while position is not None and len(passed) < _MAX_STEPS:
            key = (position[0].id, position[1])
            if key in found:
                number = found[key]
                break
            passed.append(key)
            number = self._find_defined(*key)
            if number is not None:
                break
            position = self.follow(*position)
        for key in passed if len(passed) < _MAX_STEPS else passed[:1]:
            found[key] = number
        return number

    def _find_defined(self, instruction: int, index: ShapeIndex) -> int | None:
        defined = self._buffers.definitions.get(instruction)
        if not defined:
            return None
        by_index = self._definitions.get(instruction)
        if by_index is None:
            by_index = self._definitions[instruction] = dict(defined)
        return by_index.get(index)

    def follow(self, instruction: HloInstruction, index: ShapeIndex) -> Position | None:
        """The next position of the same value towards its definition; None where it is defined here."""
        operands, opcode = instruction.operands, instruction.opcode
        if opcode in _SAME:
            return operands[0], index
        if opcode == "get-tuple-element":
            return operands[0], (instruction.proto.tuple_index, *index)
        if opcode == "tuple" and index and index[0] < len(operands):
            return operands[index[0]], index[1:]
        if opcode == "while":
            return operands[0], index
        if opcode in ("call", "conditional"):
            return self._root(instruction), index
        if opcode == "parameter":
            return self._follow_parameter(instruction, index)
        if opcode.endswith("-start"):
            return self._follow_start(instruction, index)
        if opcode.endswith("-done"):
            return self._follow_done(instruction, index)
        return None

    def _follow_parameter(self, parameter: HloInstruction, index: ShapeIndex) -> Position | None:
        caller = self._find_caller(parameter)
        number = parameter.proto.parameter_number
        if caller is None:
            return None
        if caller.opcode == "while":
            return caller.operands[0], index
        if caller.opcode == "conditional":
            callee = next(
                n
                for n, c in enumerate(caller.called_computations)
                if any(i is parameter for i in self._module.computations[c].parameters)
            )
            return caller.operands[callee + 1], index
        return (caller.operands[number], index) if number < len(caller.operands) else None

    def _follow_start(self, start: HloInstruction, index: ShapeIndex) -> Position | None:
        if not index:
            return None
        head, rest = index[0], index[1:]
        if head == 1 and start.called_computations:
            return self._root(start), rest
        if start.opcode == "copy-start":
            return (start.operands[0], rest) if head == 1 else None
        if head != 0:
            return None
        if len(start.operands) == 1 and start.opcode != "async-start":
            return start.operands[0], rest
        return (start.operands[rest[0]], rest[1:]) if rest and rest[0] < len(start.operands) else None

    def _follow_done(self, done: HloInstruction, index: ShapeIndex) -> Position | None:
        start = done.operands[0]
        if start.opcode in _RESULT_FIRST:
            return start, (0, *index)
        if start.opcode == "all-reduce-start":
            return start, index
        return start, (1, *index)

    def _root(self, caller: HloInstruction) -> HloInstruction:
        return self._module.computations[caller.called_computations[0]].root

    def _find_caller(self, parameter: HloInstruction) -> HloInstruction | None:
        if self._callers is None:
            callers: dict[int, HloInstruction] = {}
            for computation in self._module.computations.values():
                for instruction in computation.instructions:
                    for callee in instruction.called_computations:
                        for inner in self._module.computations[callee].parameters:
                            callers.setdefault(inner.id, instruction)
            self._callers = callers
        return self._callers.get(parameter.id)


def take_unplaced_aliases(module: HloModule, buffers: BufferAssignment) -> None:
    """Removes the declared aliases of custom calls whose two buffers stand in different bytes: (4) of `operand_aliases`."""
    positions = Positions(module, buffers)
    for _, call in module.iterate_custom_calls():
        entries = call.proto.output_operand_aliasing
        for number in reversed(range(len(entries))):
            entry = entries[number]
            output = tuple(entry.output_shape_index)
            operand = positions.find(call.operands[entry.operand_index], tuple(entry.operand_shape_index))
            place = positions.find(call, output)
            if place is not None and operand is not None and place != operand:
                reason = "the buffer assignment has the two in different bytes"
                module.invalid_aliases.append(
                    InvalidAlias(instruction=call.id, operand=entry.operand_index, output=output, reason=reason)
                )
                del entries[number]
