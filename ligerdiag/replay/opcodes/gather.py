"""`gather`: slices of an operand, from where a start index says.

A start index is clamped so that its slice lies within the operand. Vocabulary is XLA's: the start indices have batch
dimensions and one index vector dimension, the result has batch dimensions and offset dimensions (within a slice).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value


def read_starts(
    indices: Array, vector_dimension: int, index_map: Sequence[int], batching: Sequence[tuple[int, int]]
) -> tuple[dict[int, Array], tuple[int, ...]]:
    """For each dimension of the operand that is indexed, where the slices start, s64[batch..]; and the batch's shape.

    batching: pairs of a dimension of the operand and the dimension of `indices` that runs along with it.
    """
    signed = np.minimum(indices, np.iinfo(np.int64).max).astype(np.int64) if indices.dtype == np.uint64 else indices
    if vector_dimension == indices.ndim:
        signed = signed[..., None]
    vectors = np.moveaxis(signed, vector_dimension, -1).astype(np.int64)
    batch = vectors.shape[:-1]
    starts: dict[int, Array] = {d: vectors[..., number] for number, d in enumerate(index_map)}
    for operand_dimension, dimension in batching:
        axis = dimension - (dimension > vector_dimension)
        shape = [1] * len(batch)
        shape[axis] = batch[axis]
        along = np.arange(batch[axis], dtype=np.int64)
        starts[operand_dimension] = np.broadcast_to(along.reshape(shape), batch)
    return starts, batch


def evaluate_gather(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Operands: the array and the start indices."""
    array, indices = np.asarray(operands[0]), np.asarray(operands[1])
    numbers, sizes = instruction.proto.gather_dimension_numbers, tuple(instruction.proto.gather_slice_sizes)
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    starts, batch = read_starts(indices, numbers.index_vector_dim, numbers.start_index_map, batching)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = [d for d in range(array.ndim) if d not in dropped]
    whole = [d for d in windows if sizes[d] == array.shape[d]]
    located = [d for d in range(array.ndim) if d not in whole]

    # located dimensions come first and are indexed by arrays over [batch.., one axis for each that has a window]
    cut = [d for d in windows if d not in whole]
    picks: list[Any] = []
    for d in located:
        start: Array = np.clip(starts.get(d, np.zeros(batch, np.int64)), 0, array.shape[d] - sizes[d])
        pick = start.reshape((*batch, *([1] * len(cut))))
        if d in cut:
            shape = [1] * len(cut)
            shape[cut.index(d)] = sizes[d]
            pick = pick + np.arange(sizes[d]).reshape(shape)
        picks.append(pick)
    moved = array.transpose([*located, *whole])
    found = moved[tuple(picks)] if picks else np.broadcast_to(moved, (*batch, *moved.shape))

    offset_dims = list(numbers.offset_dims)
    rank = len(batch) + len(windows)
    order = [0] * rank
    batch_dims = [d for d in range(rank) if d not in offset_dims]
    for axis, d in enumerate(batch_dims):
        order[d] = axis
    for d, dimension in zip(offset_dims, windows, strict=True):
        order[d] = len(batch) + [*cut, *whole].index(dimension)
    return found.transpose(order)


GATHER: Mapping[str, Evaluate] = {"gather": evaluate_gather}
