"""Computes footprints: the footprint of a value is the set of parameters and kernel results from which the value is
computed, as far as XLA knows.

XLA preserves the dependences that it can see: anything that it makes of an operation is computed from the same
parameters, or from fewer. A name in a module may be wrong, but the operands are the program itself, so a footprint
shows when a name cannot be true.

A parameter of the entry computation is its own footprint. The result of a custom call has its kernel (target and
payload) and its operands' footprints. Every other value has the footprints of its operands, and a constant has none.
Elements of a tuple have separate footprints; several calls of one computation have the same. A loop's state has the
footprints of every iteration and of the loop's condition.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from ligerdiag.hlo.dataflow import is_shard_edge, unite
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import iterate_leaves

_ONE_ARRAY = having(Trait.ONE_ARRAY)
_OPERANDWISE = having(Trait.OPERANDWISE)
_CALLERS = having(Trait.CONTROL_FLOW, Trait.CALLEE_TAKES_OPERANDS)
_SAME_LEAVES = having(Trait.BARRIER, Trait.UPDATE) | {"copy"}

type Footprint = int
"""The set of parameters and kernels from which a value is computed, as an integer: a bit for each leaf of each entry
parameter, and above these a bit for each kernel.
"""

type Kernels = Mapping[tuple[str, bytes], int]
"""Maps the target and payload of a custom call to the number of its kernel."""

type _Leaves = list[Footprint]


def number_kernels(program: HloModule) -> Kernels:
    """Returns a number for each kernel that the program calls, by (target, payload). Leaves out custom calls that only the
    optimized module has: XLA made them for operations such as a product.
    """
    found: dict[tuple[str, bytes], int] = {}
    for _, call in program.iterate_custom_calls():
        found.setdefault(call.kernel, len(found))
    return found


def compute_footprints(
    module: HloModule, kernels: Kernels, *, empty: Container[int] = frozenset()
) -> Mapping[int, Footprint]:
    """Returns the footprint of each instruction that runs, by the instruction's id. A footprint is the set of parameters and
    kernels from which the whole result is computed.

    kernels: the numbers of the program's kernels. empty: ids of instructions whose footprint counts as empty; the result of
    each is one array.
    """
    evaluation = _Evaluation(module, kernels, empty)
    evaluation.run_entry()
    return {identity: unite(leaves) for identity, leaves in evaluation.values.items()}


@dataclass(slots=True, eq=False)
class _Evaluation:
    module: HloModule
    kernels: Kernels
    empty: Container[int] = frozenset[int]()
    values: dict[int, _Leaves] = field(default_factory=dict[int, _Leaves])
    _arguments: dict[int, list[_Leaves]] = field(default_factory=dict[int, list[_Leaves]])
    """Maps the id of a computation to the footprints of its parameters, one list of leaves for each parameter, united
    over all calls so far. The computation is evaluated again only if a call adds something to them.
    """
    _begins: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Maps the id of a tuple to the position of each element's first leaf among all leaves, followed by the number of
    leaves.
    """
    _first_kernel: int = 0

    def run_entry(self) -> None:
        entry, number = self.module.entry, 0
        arguments: list[_Leaves] = []
        for parameter in entry.parameters:
            count = _count_leaves(parameter)
            arguments.append([1 << (number + leaf) for leaf in range(count)])
            number += count
        self._first_kernel = number
        self._run(entry, arguments)

    def _run(self, computation: HloComputation, arguments: list[_Leaves]) -> _Leaves:
        known = self._arguments.get(computation.id)
        if known is not None:
            arguments = [_join(one, other) for one, other in zip(known, arguments, strict=True)]
        if known != arguments:
            self._arguments[computation.id] = arguments
            for instruction in computation.instructions:
                self.values[instruction.id] = self._evaluate(instruction, arguments)
        return self.values[computation.root.id]

    def _evaluate(self, instruction: HloInstruction, arguments: list[_Leaves]) -> _Leaves:
        opcode, operands, values = instruction.opcode, instruction.operands, self.values
        if instruction.id in self.empty:
            return [0]
        if opcode in _ONE_ARRAY:
            return [unite([one for operand in operands for one in values[operand.id]])]
        match opcode:
            case "parameter":
                return arguments[instruction.proto.parameter_number]
            case "tuple":
                return [one for operand in operands for one in values[operand.id]]
            case "get-tuple-element":
                return self._take(operands[0], instruction.proto.tuple_index)
            case "async-done":
                return self._take(operands[0], 1)
            case _ if opcode in _SAME_LEAVES:
                return values[operands[0].id]
            case "while":
                return self._run_loop(instruction)
            case "conditional":
                return self._run_branches(instruction)
            case _ if opcode in _CALLERS:
                callee = self.module.computations[instruction.called_computations[0]]
                found = self._run(callee, [values[operand.id] for operand in operands])
                if opcode == "async-start":  # its result holds operands, results, and more
                    found = [one for operand in operands for one in values[operand.id]] + found
                    return found + [unite(found)] * (_count_leaves(instruction) - len(found))
                if len(found) == _count_leaves(instruction):
                    return found
                return [unite(found)] * _count_leaves(instruction)
            case _ if opcode.endswith("-done") and len(operands) == 1:
                return _finish(values[operands[0].id], _count_leaves(instruction))
            case _ if len(operands) > 1 and _takes_one_by_one(instruction):
                count = _count_leaves(instruction) // len(operands)  # a start also gives its operands back
                return [one for operand in operands for one in values[operand.id]] * count
            case _:
                union = unite([one for operand in operands for one in values[operand.id]])
                if opcode == "custom-call" and (number := self.kernels.get(instruction.kernel)) is not None:
                    union |= 1 << (self._first_kernel + number)
                return [union] * _count_leaves(instruction)

    def _take(self, whole: HloInstruction, index: int) -> _Leaves:
        """Returns the footprint (the parameters and kernels from which a value is computed) of each leaf in one element
        of a tuple.
        """
        begins = self._begins.get(whole.id)
        if begins is None:
            counts = [sum(1 for _ in iterate_leaves(child)) for child in whole.shape.tuple_shapes]
            begins = self._begins[whole.id] = [0, *accumulate(counts)]
        return self.values[whole.id][begins[index] : begins[index + 1]]

    def _run_loop(self, loop: HloInstruction) -> _Leaves:
        body, condition = (self.module.computations[c] for c in loop.called_computations)
        state = self.values[loop.operands[0].id]
        while True:
            predicate = unite(self._run(condition, [state]))
            after = [one | predicate for one in _join(state, self._run(body, [state]))]
            if after == state:
                return state
            state = after

    def _run_branches(self, conditional: HloInstruction) -> _Leaves:
        predicate = unite(self.values[conditional.operands[0].id])
        found = [predicate] * _count_leaves(conditional)
        for callee, operand in zip(conditional.called_computations, conditional.operands[1:], strict=True):
            found = _join(found, self._run(self.module.computations[callee], [self.values[operand.id]]))
        return found


def _takes_one_by_one(instruction: HloInstruction) -> bool:
    """Returns whether each result of the instruction depends only on one operand, as in combined collectives."""
    if instruction.opcode == "custom-call":
        return is_shard_edge(instruction)
    return instruction.opcode in _OPERANDWISE and _count_leaves(instruction) % len(instruction.operands) == 0


def _finish(started: _Leaves, count: int) -> _Leaves:
    """Returns the footprints of the `count` results of an asynchronous operation, from the leaves of its start. The
    results are the last leaves there, after the operands. If the number of leaves does not fit, each result gets the
    union of all leaves.
    """
    if len(started) % count == 0 and len(started) > count:
        return started[-count:]
    return started if len(started) == count else [unite(started)] * count


def _join(one: _Leaves, other: _Leaves) -> _Leaves:
    return [a | b for a, b in zip(one, other, strict=True)]


def _count_leaves(instruction: HloInstruction) -> int:
    if instruction.opcode in _ONE_ARRAY:
        return 1
    return sum(1 for _ in iterate_leaves(instruction.shape))
