"""The `scan` opcode: a computation carried along one dimension, as JAX emits it for cumulative sums.

Operands are inputs and then `num_carries` carries. The computation takes one slice of each input, without the dimension,
and the carries, and gives one slice of each output and the next carries; the result is the outputs and the last carries.
Checked against XLA:CPU: what is associative may be computed in any order there, and is computed in this one here.
"""

from collections.abc import Mapping

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value


def _scan(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    arrays = [operand for operand in operands if not isinstance(operand, tuple)]
    carries = instruction.proto.num_carries
    axis = instruction.proto.dimensions[0] if instruction.proto.dimensions else 0
    split = len(arrays) - carries
    if len(arrays) != len(operands) or split < 1 or any(axis >= array.ndim for array in arrays[:split]):
        raise ArtifactError(f"`{instruction.name}` is a scan over something else than arrays")
    inputs, state = arrays[:split], list(arrays[split:])
    shapes = instruction.shape.tuple_shapes
    outputs: list[Array] = [np.empty(get_dimensions(s), get_dtype(s)) for s in shapes[: len(shapes) - carries]]
    length = inputs[0].shape[axis]
    for step in reversed(range(length)) if instruction.proto.is_reverse else range(length):
        slices = [np.take(array, step, axis) for array in inputs]
        results = scope.call(instruction.called_computations[0], (*slices, *state))
        if not isinstance(results, tuple) or len(results) != len(outputs) + carries:
            raise ArtifactError(f"`{instruction.name}` calls a computation with another result")
        values = [np.asarray(result) for result in results]
        for output, value in zip(outputs, values, strict=False):
            output[(slice(None),) * axis + (step,)] = value
        state = values[len(outputs) :]
    return (*outputs, *state)


SCAN: Mapping[str, Evaluate] = {"scan": _scan}
