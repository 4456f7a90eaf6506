"""`reduce`: one or several operands folded over some of their dimensions.

A reducer that is no single operation is applied as a tree that keeps the elements' order: XLA promises no order and so
demands a reducer that is associative, and for one of those a tree in order and a fold from the left are the same.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.opcodes.reducers import Reducer, UFunc, compute_accumulator_dtype, parse_reducer
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value


def reduce_arrays(
    arrays: Sequence[Array], inits: Sequence[Array], dimensions: Sequence[int], reducer: Reducer
) -> tuple[Array, ...]:
    """Returns the arrays without those dimensions; `inits` are the scalars that each fold starts from."""
    with np.errstate(all="ignore"):
        if reducer.ufuncs:
            operands = zip(arrays, inits, reducer.ufuncs, strict=True)
            return tuple([_reduce_by_ufunc(a, init, tuple(dimensions), ufunc) for a, init, ufunc in operands])
        return _reduce_by_tree(arrays, inits, dimensions, reducer)


def _reduce_by_ufunc(array: Array, init: Array, dimensions: tuple[int, ...], ufunc: UFunc) -> Array:
    dtype = compute_accumulator_dtype(ufunc, array.dtype)
    kept = [size for d, size in enumerate(array.shape) if d not in dimensions]
    start = np.broadcast_to(init.astype(dtype), kept)
    if not array.size:
        return start.astype(array.dtype)
    if not dimensions:
        return ufunc(start, array.astype(dtype)).astype(array.dtype)
    if ufunc is np.add:
        folded = ufunc.reduce(array, axis=dimensions, dtype=dtype)
    else:
        folded = ufunc.reduce(array.astype(dtype, copy=False), axis=dimensions)
    return ufunc(start, folded).astype(array.dtype)


def _reduce_by_tree(
    arrays: Sequence[Array], inits: Sequence[Array], dimensions: Sequence[int], reducer: Reducer
) -> tuple[Array, ...]:
    """Neighbours are combined until one is left: a logarithmic number of calls on whole arrays."""
    shape = arrays[0].shape
    kept = [d for d in range(len(shape)) if d not in dimensions]
    order = [*sorted(dimensions), *kept]
    length, rest = math.prod(shape[d] for d in dimensions), [shape[d] for d in kept]
    left = tuple([a.transpose(order).reshape(length, *rest) for a in arrays])
    start = tuple([np.broadcast_to(i, rest) for i in inits])
    if not length:
        return start
    while length > 1:
        even = length - length % 2
        paired = reducer.combine([a[0:even:2] for a in left], [a[1:even:2] for a in left])
        left = tuple([np.concatenate([p, a[even:]]) for p, a in zip(paired, left, strict=True)])
        length = left[0].shape[0]
    return reducer.combine(start, [a[0] for a in left])


def evaluate_reduce(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Operands: the arrays, then as many initial values."""
    arrays = [np.asarray(operand) for operand in operands]
    count = len(arrays) // 2
    reducer = parse_reducer(instruction.called_computations[0], count, scope)
    results = reduce_arrays(arrays[:count], arrays[count:], tuple(instruction.proto.dimensions), reducer)
    return results if is_tuple(instruction.shape) else results[0]


REDUCTION: Mapping[str, Evaluate] = {"reduce": evaluate_reduce}
