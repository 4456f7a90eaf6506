"""`sort` and `topk`. Both keep the order of equal elements, whether or not the instruction requires it."""

from collections.abc import Mapping

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.dtypes import get_dtype
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value
from ligerdiag.replay.opcodes.sort_order import compute_order, compute_rank


def evaluate_sort(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns all operands, along one dimension, by the comparator's order."""
    arrays = [np.asarray(operand) for operand in operands]
    dimension = instruction.proto.dimensions[0]
    moved = [np.moveaxis(array, dimension, -1) for array in arrays]
    order = compute_order(instruction.called_computations[0], moved, scope)
    results = [np.moveaxis(np.take_along_axis(array, order, -1), -1, dimension) for array in moved]
    return tuple(results) if is_tuple(instruction.shape) else results[0]


def compute_top(values: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """Returns the k largest (or smallest) of the last dimension in the total order, and their positions, s64."""
    ranks = compute_rank(values, canonical=False)
    order = np.argsort(~ranks if largest else ranks, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(values, order, -1), order


def evaluate_topk(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Values and positions of the first `k`."""
    values, positions = compute_top(np.asarray(operands[0]), instruction.proto.k, largest=instruction.proto.largest)
    return values, positions.astype(get_dtype(instruction.shape.tuple_shapes[1]))


ORDERING: Mapping[str, Evaluate] = {"sort": evaluate_sort, "topk": evaluate_topk}
