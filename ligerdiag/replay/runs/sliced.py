"""A kernel inside of a fusion: XLA gives it the slices of larger arrays, or places for its results, without a copy.

Only slices and other names stand between the fusion's operands and the kernel, so what it overwrites are their bytes.
"""

from collections.abc import Sequence

import numpy as np

from ligerdiag.effects.call import carries_kernel
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.replay.interpreter.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.interpreter.evaluate import Evaluator
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.program import Kernels


def calls_kernel(fused: HloComputation) -> bool:
    return any(is_kernel(one) for one in fused.instructions)


def is_kernel(instruction: HloInstruction) -> bool:
    return instruction.opcode == "custom-call" and carries_kernel(instruction.proto.custom_call_target)


def run_sliced(fused: HloComputation, operands: Sequence[Value], evaluator: Evaluator, kernels: Kernels) -> Value:
    """Runs the fusion on its operands' own bytes; returns what it computes. Raises NotCoveredError."""
    values: dict[int, Value] = {}
    for one in fused.instructions:
        inputs = tuple([values[operand.id] for operand in one.operands])
        if one.opcode == "parameter":
            values[one.id] = operands[one.proto.parameter_number]
        elif is_kernel(one):
            values[one.id] = _launch(one, [_flatten(one, value, operands) for value in inputs], kernels)
        else:
            values[one.id] = evaluator.evaluate(one, inputs)
    return values[fused.root.id]


def _launch(call: HloInstruction, operands: list[Array], kernels: Kernels) -> Value:
    if call.operand_output_aliases:
        raise NotCoveredError(f"`{call.name}`: a kernel in a fusion with an output in its operand's place")
    outputs: list[Array] = []
    for _, shape in iterate_leaf_shapes(call.shape):
        dimensions = get_dimensions(shape)
        if list(shape.layout.minor_to_major) != [*range(len(dimensions))][::-1]:
            raise NotCoveredError(f"`{call.name}`: a kernel in a fusion with an output in another layout")
        dtype = get_dtype(shape)
        outputs.append(np.full((*dimensions, dtype.itemsize), 0xFF, np.uint8).view(dtype).reshape(dimensions))
    kernels.launch(call, operands, [output.reshape(-1) for output in outputs], watched=True)
    return tuple(outputs) if call.shape.tuple_shapes else outputs[0]


def _flatten(call: HloInstruction, value: Value, operands: Sequence[Value]) -> Array:
    """Returns the elements in the order in which they stand in memory, on the fusion's operands' own bytes."""
    if not isinstance(value, np.ndarray):
        raise NotCoveredError(f"`{call.name}`: a kernel in a fusion with a tuple as its operand")
    order = sorted(range(value.ndim), key=lambda axis: -value.strides[axis])
    ordered = value.transpose(order)
    is_own = any(isinstance(one, np.ndarray) and np.may_share_memory(one, value) for one in operands)
    if not is_own or not ordered.flags.c_contiguous:
        raise NotCoveredError(f"`{call.name}`: a kernel in a fusion whose operand does not stand in one piece")
    return ordered.reshape(-1)
