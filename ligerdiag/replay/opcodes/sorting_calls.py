"""Sorting by libraries: `TopK` as XLA:GPU calls it, and CUB's radix sort."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.opcodes.ordering import compute_top
from ligerdiag.replay.opcodes.scope import Array, Evaluate, NotCoveredError, Scope, Value
from ligerdiag.replay.opcodes.sort_order import compute_rank


def evaluate_topk_call(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns the largest elements of the last dimension, and their positions.

    The comparator stays behind from what the call was made of, and its dtype may be another one than the operand's.
    """
    for comparator in instruction.called_computations:
        if scope.module.computations[comparator].root.proto.comparison_direction != "GT":
            raise NotCoveredError("custom-call TopK of the smallest elements")
    shapes = instruction.shape.tuple_shapes
    if len(shapes) != 2:
        raise ArtifactError(f"`{instruction.name}` has {len(shapes)} results, expected values and positions")
    values, positions = compute_top(np.asarray(operands[0]), get_dimensions(shapes[0])[-1], largest=True)
    return values, positions.astype(get_dtype(shapes[1]))


def _is_row_major(shape: ShapeProto) -> bool:
    order = list(shape.layout.minor_to_major)
    return order == sorted(order, reverse=True)


def evaluate_radix_sort(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Keys, or keys and values, along the last dimension; the last result is scratch, zeros here.

    CUB orders floats by sign and magnitude, both zeros as one.
    """
    shapes = instruction.shape.tuple_shapes
    if len(operands) not in (1, 2) or not all(_is_row_major(o.shape) for o in instruction.operands):
        raise NotCoveredError(f"custom-call {instruction.proto.custom_call_target} of {len(operands)} operands")
    try:
        config: Any = json.loads(instruction.proto.backend_config or b"{}")
    except ValueError as error:
        raise ArtifactError(f"`{instruction.name}` has options that are no JSON") from error
    arrays = [np.asarray(operand) for operand in operands]
    keys = arrays[0]
    if keys.dtype.kind not in "iub":
        keys = np.where(keys == 0, np.zeros((), keys.dtype), keys)
    ranks = compute_rank(keys, canonical=False)
    order = np.argsort(~ranks if config.get("descending") else ranks, axis=-1, kind="stable")
    results: list[Array] = [np.take_along_axis(array, order, -1) for array in arrays]
    results += [np.zeros(get_dimensions(shape), get_dtype(shape)) for shape in shapes[len(results) :]]
    return tuple(results)


SORTING_CALLS: Mapping[str, Evaluate] = {
    "TopK": evaluate_topk_call,
    "__gpu$TopK": evaluate_topk_call,
    "__cub$DeviceRadixSort": evaluate_radix_sort,
    "__cub$DeviceRadixSortUnassignedScratchSize": evaluate_radix_sort,
}
