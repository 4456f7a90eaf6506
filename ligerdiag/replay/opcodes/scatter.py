"""`scatter`: updates combined into slices of an operand, at where an index says.

An update whose slice does not lie within the operand is dropped as a whole. Updates of one element are applied in the
order of the indices (XLA promises none; with floats, or with a combiner that replaces, the order is seen).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.opcodes.gather import read_starts
from ligerdiag.replay.opcodes.reducers import Reducer, compute_accumulator_dtype, parse_reducer
from ligerdiag.replay.opcodes.scope import Array, Evaluate, NotCoveredError, Scope, Value


def combine_rows(
    targets: Sequence[Array], rows: Array, updates: Sequence[Array], reducer: Reducer
) -> tuple[Array, ...]:
    """Returns the targets [rows, columns] after updates [n, columns] went into the rows that `rows`, s64[n], names, in
    order."""
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
    """Returns the same for those rows that an update names; `places` are positions among them."""
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
    """Positions in `rows` so that no turn names a row twice: the first of each row, then the second of each, ..."""
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
    """Operands: the arrays, the indices, then as many updates."""
    values = [np.asarray(operand) for operand in operands]
    count = len(values) // 2
    arrays, indices, updates = values[:count], values[count], values[count + 1 :]
    shape, numbers = arrays[0].shape, instruction.proto.scatter_dimension_numbers
    if not numbers.scatter_dims_to_operand_dims:  # by definition each update is applied; XLA:CPU applies one of them
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

    # rows are the dimensions that are located, columns those that an update covers whole
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


SCATTER: Mapping[str, Evaluate] = {"scatter": evaluate_scatter}
