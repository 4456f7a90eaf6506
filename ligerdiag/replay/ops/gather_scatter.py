"""Computes `gather`, `scatter` and `select-and-scatter`, which read slices of an operand at computed places, or combine
updates into such slices.

`gather` clamps a start index so that its slice lies within the operand. In XLA's terms, the start indices have batch
dimensions and one index vector dimension; the result has batch dimensions and offset dimensions (within a slice).

`scatter` drops an update as a whole if its slice does not lie within the operand. Updates of one element are applied in
the order of the indices. XLA promises no order; the result depends on it for floats, or if the combiner replaces the
old element.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.ops.reductions import (
    Reducer,
    check_window,
    compute_accumulator_dtype,
    iterate_window,
    pad_base,
    parse_reducer,
)
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value


def read_starts(
    indices: Array, vector_dimension: int, index_map: Sequence[int], batching: Sequence[tuple[int, int]]
) -> tuple[dict[int, Array], tuple[int, ...]]:
    """Returns (starts, shape of the batch). `starts` maps each indexed dimension of the operand to an array
    s64[batch..], the starts of the slices in this dimension.

    vector_dimension, index_map: XLA's `index_vector_dim` and `start_index_map`. batching: pairs of a dimension of the
    operand and the corresponding dimension of `indices`.
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
    """Evaluates `gather`. Operands: the array and the start indices."""
    array, indices = np.asarray(operands[0]), np.asarray(operands[1])
    numbers, sizes = instruction.proto.gather_dimension_numbers, tuple(instruction.proto.gather_slice_sizes)
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    starts, batch = read_starts(indices, numbers.index_vector_dim, numbers.start_index_map, batching)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = [d for d in range(array.ndim) if d not in dropped]
    whole = [d for d in windows if sizes[d] == array.shape[d]]
    located = [d for d in range(array.ndim) if d not in whole]

    # dimensions that a slice does not take whole come first, indexed by arrays over [batch.., one axis for each in `cut`]
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


def combine_rows(
    targets: Sequence[Array], rows: Array, updates: Sequence[Array], reducer: Reducer
) -> tuple[Array, ...]:
    """Combines each update into its row of the targets, one after the other, and returns the new targets.

    targets: arrays [rows, columns]. rows: s64[n], the row of each update. updates: for each target, an array [n,
    columns].
    """
    if reducer.keeps_second:
        # the last update of a row is the one that stays
        named, position = np.unique(rows[::-1], return_index=True)
        changed = tuple([update[::-1][position] for update in updates])
    else:
        named, places = np.unique(rows, return_inverse=True)
        changed = _combine_named([target[named] for target in targets], places.reshape(-1), updates, reducer)
    results = tuple([target.copy() for target in targets])
    for result, values in zip(results, changed, strict=True):
        result[named] = values
    return results


def _combine_named(
    rows: Sequence[Array], places: Array, updates: Sequence[Array], reducer: Reducer
) -> tuple[Array, ...]:
    """Returns the rows after combining updates into them, in order.

    Unlike `combine_rows`, it gets only the rows that an update names, each once, and may modify them. rows: for each
    target, an array [named rows, columns]. places: for each update, the position of its row among these.
    """
    if not reducer.ufuncs:
        for turn in _iterate_turns(places):
            there = places[turn]
            combined = reducer.combine([row[there] for row in rows], [update[turn] for update in updates])
            for row, values in zip(rows, combined, strict=True):
                row[there] = values
        return tuple(rows)
    found: list[Array] = []
    for ufunc, row, update in zip(reducer.ufuncs, rows, updates, strict=True):
        dtype = compute_accumulator_dtype(ufunc, row.dtype)
        total, wide = row.astype(dtype), update.astype(dtype)
        if total.shape[1] == 1:
            ufunc.at(total[:, 0], places, wide[:, 0])
        else:
            for turn in _iterate_turns(places):
                total[places[turn]] = ufunc(total[places[turn]], wide[turn])
        found.append(total.astype(row.dtype, copy=False))
    return tuple(found)


def _iterate_turns(rows: Array) -> Sequence[Array]:
    """Splits updates into turns in which no row occurs twice: the first update of each row, then the second, and so on.

    Returns the positions of the updates of each turn. rows: the row of each update.
    """
    if not rows.size:
        return []
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    is_first: Array = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    first = np.maximum.accumulate(np.where(is_first, np.arange(rows.size), 0))
    turn = np.arange(rows.size) - first
    by_turn = order[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def evaluate_scatter(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates `scatter`. Operands: the arrays, the indices, then updates for each of the arrays."""
    values = [np.asarray(operand) for operand in operands]
    count = len(values) // 2
    arrays, indices, updates = values[:count], values[count], values[count + 1 :]
    shape, numbers = arrays[0].shape, instruction.proto.scatter_dimension_numbers
    if not numbers.scatter_dims_to_operand_dims:  # by definition all updates are applied; XLA:CPU applies only one
        raise NotCoveredError("scatter by an empty index vector")
    batching = list(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    starts, batch = read_starts(indices, numbers.index_vector_dim, numbers.scatter_dims_to_operand_dims, batching)
    inserted = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windows = [d for d in range(len(shape)) if d not in inserted]
    window_dims = list(numbers.update_window_dims)
    batch_dims = [d for d in range(updates[0].ndim) if d not in window_dims]
    sizes = [1] * len(shape)
    for d, dimension in zip(windows, window_dims, strict=True):
        sizes[d] = updates[0].shape[dimension]

    zeros = np.zeros(batch, np.int64)
    fits: Array = np.ones(batch, np.bool_)
    for d, start in starts.items():
        fits &= (start >= 0) & (start <= shape[d] - sizes[d])

    # columns are the dimensions that an update covers whole, rows all others
    whole = [d for d in windows if sizes[d] == shape[d]]
    located = [d for d in range(len(shape)) if d not in whole]
    cut = [d for d in windows if d not in whole]
    rows: Array = np.zeros((*batch, *([1] * len(cut))), np.int64)
    for d in located:
        offset: Array = starts.get(d, zeros).reshape((*batch, *([1] * len(cut))))
        if d in cut:
            along = [1] * len(cut)
            along[cut.index(d)] = sizes[d]
            offset = offset + np.arange(sizes[d]).reshape(along)
        rows = rows * shape[d] + offset
    columns = math.prod(shape[d] for d in whole)
    order = [*batch_dims, *(window_dims[windows.index(d)] for d in (*cut, *whole))]
    targets = [a.transpose([*located, *whole]).reshape(-1, columns) for a in arrays]
    slots = math.prod(sizes[d] for d in cut)
    kept = fits.reshape(-1)
    parts = [u.transpose(order).reshape(kept.size, slots, columns)[kept].reshape(-1, columns) for u in updates]
    chosen = np.broadcast_to(rows, (*batch, *(sizes[d] for d in cut))).reshape(kept.size, slots)[kept].reshape(-1)

    reducer = parse_reducer(instruction.called_computations[0], count, scope)
    with np.errstate(all="ignore"):
        found = combine_rows(targets, chosen, parts, reducer) if arrays[0].size else tuple(targets)
    back = np.argsort([*located, *whole])
    moved = [shape[d] for d in (*located, *whole)]
    results = tuple([f.reshape(moved).transpose(back) if shape else f.reshape(()) for f in found])
    return results if is_tuple(instruction.shape) else results[0]


def evaluate_select_and_scatter(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates `select-and-scatter`. Operands: the array, one source value per window, and the initial value.

    Each window selects one element outside of the padding; the source values are combined into the selected elements.
    """
    array, source, init = (np.asarray(operand) for operand in operands)
    window = instruction.proto.window
    check_window(instruction, window)
    select, scatter = instruction.called_computations
    places: Array = np.arange(array.size).reshape(array.shape)
    bases = pad_base(array, window, np.zeros((), array.dtype)), pad_base(places, window, np.array(-1))
    best, place = np.zeros(source.shape, array.dtype), np.full(source.shape, -1)
    if source.size:
        for where in iterate_window(window, source.shape):
            candidate, there = (base[where] for base in bases)
            keeps = np.asarray(scope.call(select, (best, candidate)))
            taken = (there >= 0) & ((place < 0) | ~keeps)
            best, place = np.where(taken, candidate, best), np.where(taken, there, place)
    picked = place.reshape(-1) >= 0
    target: Array = np.full((array.size, 1), init, array.dtype)
    updates = source.reshape(-1, 1)[picked]
    reducer = parse_reducer(scatter, 1, scope)
    return combine_rows((target,), place.reshape(-1)[picked], (updates,), reducer)[0].reshape(array.shape)


SCATTER: Mapping[str, Evaluate] = {"scatter": evaluate_scatter, "select-and-scatter": evaluate_select_and_scatter}
