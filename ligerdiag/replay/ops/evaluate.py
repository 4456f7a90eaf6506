"""Evaluates HLO computations whose values need no place in memory, because nothing overwrites them: reducers,
comparators, fusions, whole programs without kernels.

Instructions run in dependency order, and a value is dropped after its last use. `opt-barrier`, `domain`,
`add-dependency` and the -done of an asynchronous pair return their operand. The -start of the pair does the work. A
`custom-call` is computed by the function for its target. Kernels and collectives are not computed here (see
`runs.kernels`, `runs.collectives`), nor are custom calls that change the meaning of a shape, such as
`SPMDFullToShardShape`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.custom_calls import CallTrait, find_traits
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.ops.dtypes import CONVERSION, get_dimensions, get_dtype
from ligerdiag.replay.ops.elementwise import BITS, CHOICE, ELEMENTWISE
from ligerdiag.replay.ops.gather_scatter import GATHER, SCATTER
from ligerdiag.replay.ops.movement import DYNAMIC, IDENTITY, MOVEMENT
from ligerdiag.replay.ops.products import DOT, evaluate_gemm, multiply
from ligerdiag.replay.ops.random_bits import RANDOM, compute_threefry
from ligerdiag.replay.ops.reductions import REDUCTION, SCAN, WINDOWS
from ligerdiag.replay.ops.scope import Evaluate, Multiply, NotCoveredError, OnValue, Scope, Value
from ligerdiag.replay.ops.sorting import ORDERING, evaluate_radix_sort, evaluate_topk_call


def evaluate_threefry(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates the custom call of JAX's threefry2x32 on CUDA. Returns a tuple of the two words of random bits.

    Operands: two words of the key, two of the counter, all u32 of one shape.
    """
    words: list[Any] = [np.asarray(operand) for operand in operands]
    if len(words) != 4 or any(word.dtype != np.uint32 for word in words):
        raise NotCoveredError(f"the custom call {instruction.proto.custom_call_target} with {len(words)} operands")
    with np.errstate(over="ignore"):
        return compute_threefry((words[2], words[3]), (words[0], words[1]))


def pass_on(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates a custom call that only annotates its operands, and returns the operands unchanged."""
    if len(operands) == 0:
        raise ArtifactError(f"the custom call `{instruction.name}` should return its operand, but it has none")
    return operands if is_tuple(instruction.shape) and len(operands) > 1 else operands[0]


def allocate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates a custom call that only allocates memory. Returns zeros, because the memory has no contents yet."""
    return np.zeros(get_dimensions(instruction.shape), get_dtype(instruction.shape))


TARGETS: Mapping[CallTrait, Evaluate] = {
    CallTrait.MATRIX_PRODUCT: evaluate_gemm,
    CallTrait.TOP_K: evaluate_topk_call,
    CallTrait.RADIX_SORT: evaluate_radix_sort,
    CallTrait.THREEFRY: evaluate_threefry,
    CallTrait.ALLOCATES: allocate,
    CallTrait.IDENTITY: pass_on,
}


def evaluate_custom_call(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates a custom call by its target. Raises NotCoveredError if the target is unknown."""
    target = instruction.proto.custom_call_target
    traits = find_traits(target)
    compute = next((compute for trait, compute in TARGETS.items() if trait in traits), None)
    if compute is None:
        raise NotCoveredError(f"custom-call {target}")
    return compute(instruction, operands, scope)


LIBRARY_CALLS: Mapping[str, Evaluate] = {"custom-call": evaluate_custom_call}


FAMILIES: tuple[Mapping[str, Evaluate], ...] = (
    BITS,
    CHOICE,
    CONVERSION,
    DOT,
    DYNAMIC,
    ELEMENTWISE,
    GATHER,
    IDENTITY,
    LIBRARY_CALLS,
    MOVEMENT,
    ORDERING,
    RANDOM,
    REDUCTION,
    SCAN,
    SCATTER,
    WINDOWS,
)

OPCODES: Mapping[str, Evaluate] = {name: evaluate for family in FAMILIES for name, evaluate in family.items()}


PASSED_ON = having(Trait.HANDS_ON)
_RUNS_ONCE = having(Trait.CALLEE_TAKES_OPERANDS)


@dataclass(slots=True, eq=False)
class HloEvaluator:
    """Computes values of one module on one device. The functions that compute opcodes get the evaluator as their
    `Scope`, and call computations of the module through it.
    """

    module: HloModule
    partition: int = 0
    multiply: Multiply = multiply
    on_value: OnValue | None = None
    """Gets the values of the computations that are called, fused ones among them, except parameters and unused values."""
    _uses: dict[int, Mapping[int, int]] = field(default_factory=dict[int, Mapping[int, int]])

    def call(self, computation: int, arguments: Sequence[Value]) -> Value:
        """Calls the computation with this id and returns its value. Raises NotCoveredError for an opcode that replay
        cannot compute.
        """
        callee = self.module.computations[computation]
        left = dict(self.count_uses(callee))
        values: dict[int, Value] = {}
        for instruction in callee.instructions:
            if instruction.opcode == "parameter":
                values[instruction.id] = arguments[instruction.proto.parameter_number]
                continue
            if not left.get(instruction.id):
                continue
            operands = tuple([values[operand.id] for operand in instruction.operands])
            values[instruction.id] = self.evaluate(instruction, operands)
            if self.on_value is not None:
                self.on_value(instruction, values[instruction.id], self.partition)
            for operand in instruction.operands:
                left[operand.id] -= 1
                if not left[operand.id]:
                    del values[operand.id]
        return values[callee.root.id]

    def evaluate(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """Returns the value of one instruction, given the values of its operands. A parameter has no operands and must
        not be passed. Raises NotCoveredError for an opcode that replay cannot compute.
        """
        opcode, called = instruction.opcode, instruction.called_computations
        if opcode == "tuple":
            return operands
        if opcode == "get-tuple-element":
            whole = operands[0]
            if not isinstance(whole, tuple) or instruction.proto.tuple_index >= len(whole):
                raise ArtifactError(
                    f"`{instruction.name}` reads an element of a tuple, but its operand has no such element"
                )
            return whole[instruction.proto.tuple_index]
        if opcode in PASSED_ON:
            return operands[0]
        if opcode in _RUNS_ONCE:
            return self.call(called[0], operands)
        if opcode == "copy-start":
            return operands[0]
        if opcode == "after-all":
            return ()
        if opcode == "while":
            body, condition = called
            state = operands[0]
            while is_true(self.call(condition, (state,))):
                state = self.call(body, (state,))
            return state
        if opcode == "conditional":
            branch = choose_branch(instruction, operands[0])
            return self.call(called[branch], (operands[1 + branch],))
        return compute_opcode(instruction, operands, self)

    def count_uses(self, computation: HloComputation) -> Mapping[int, int]:
        """Returns how often the computation uses each instruction as an operand: `{id of the instruction: count}`. The
        root has one use more, because it is also the result.
        """
        found = self._uses.get(computation.id)
        if found is None:
            found = Counter(o.id for i in computation.instructions for o in i.operands)
            found[computation.root.id] += 1
            self._uses[computation.id] = found
        return found


def compute_opcode(instruction: HloInstruction, operands: tuple[Value, ...], scope: HloEvaluator) -> Value:
    """Computes an instruction by the function for its opcode. Raises NotCoveredError if there is no such function."""
    compute = OPCODES.get(instruction.opcode)
    if compute is None:
        raise NotCoveredError(instruction.opcode)
    return compute(instruction, operands, scope)


def is_true(value: Value) -> bool:
    """Returns the value of a scalar predicate as a bool."""
    return bool(np.asarray(value))


def choose_branch(instruction: HloInstruction, selector: Value) -> int:
    """Returns the number of the branch that a conditional takes.

    A true predicate takes the first branch, a false one the second. An index out of range takes the last branch.
    """
    array, branches = np.asarray(selector), len(instruction.called_computations)
    if array.dtype == np.bool_:
        return 0 if array else 1
    index = int(array)
    return index if 0 <= index < branches else branches - 1
