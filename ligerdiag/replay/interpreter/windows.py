"""`reduce-window` and `select-and-scatter`: folds over windows that slide over the operands.

A window that reaches from one end of a dimension to each element in turn is a running fold (`cumsum`); it is computed in
one pass, or in a logarithmic number of calls of the reducer.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.xla_pb2 import Window, WindowDimension
from ligerdiag.replay.interpreter.dtypes import get_dimensions
from ligerdiag.replay.interpreter.gather_scatter import combine_rows
from ligerdiag.replay.interpreter.reductions import Reducer, compute_accumulator_dtype, parse_reducer
from ligerdiag.replay.interpreter.scope import Array, Evaluate, NotCoveredError, Scope, Value

_FALSE = np.zeros((), np.bool_)


def pad_base(array: Array, window: Window, fill: Array) -> Array:
    """Returns the array with the window's base dilation and padding; negative padding crops."""
    for axis, dimension in enumerate(window.dimensions):
        step, low, high = dimension.base_dilation or 1, dimension.padding_low, dimension.padding_high
        if step == 1 and not low and not high:
            continue
        size = max(array.shape[axis] - 1, 0) * step + min(array.shape[axis], 1)
        shape = list(array.shape)
        shape[axis] = max(low, 0) + size + max(high, 0)
        padded: Array = np.full(shape, fill, array.dtype)
        padded[_on_axis(axis, slice(max(low, 0), max(low, 0) + size, step))] = array
        array = padded[_on_axis(axis, slice(max(-low, 0), shape[axis] - max(-high, 0)))]
    return array


def iterate_window(window: Window, result: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """For each position in a window, row-major, the elements of the padded base that stand there, one per result."""
    sizes = [range(d.size) for d in window.dimensions]
    for offset in itertools.product(*sizes):
        slices: list[slice] = []
        for position, count, d in zip(offset, result, window.dimensions, strict=True):
            start, stride = position * (d.window_dilation or 1), d.stride or 1
            slices.append(slice(start, start + (count - 1) * stride + 1, stride))
        yield tuple(slices)


def _on_axis(axis: int, where: slice) -> tuple[Any, ...]:
    return (*([slice(None)] * axis), where)


def _find_running_axis(window: Window, shape: Sequence[int]) -> tuple[int, bool] | None:
    """Axis of a running fold and whether it runs from the end; None for any other window."""
    axes = [axis for axis, d in enumerate(window.dimensions) if not _is_trivial(d)]
    if len(axes) != 1:
        return None
    d = window.dimensions[axes[0]]
    is_plain = all((step or 1) == 1 for step in (d.stride, d.window_dilation, d.base_dilation))
    if not is_plain or d.size < shape[axes[0]]:
        return None
    if (d.padding_low, d.padding_high) == (d.size - 1, 0):
        return axes[0], False
    if (d.padding_low, d.padding_high) == (0, d.size - 1):
        return axes[0], True
    return None


def _is_trivial(d: WindowDimension) -> bool:
    steps = (d.stride or 1, d.base_dilation or 1, d.size)
    return steps == (1, 1, 1) and not d.padding_low and not d.padding_high


def _scan(arrays: tuple[Array, ...], axis: int, from_end: bool, reducer: Reducer) -> tuple[Array, ...]:
    """Running folds; each pass doubles how many elements each result covers."""
    if reducer.ufuncs:
        found: list[Array] = []
        for array, ufunc in zip(arrays, reducer.ufuncs, strict=True):
            turned = np.flip(array, axis) if from_end else array
            running = ufunc.accumulate(turned.astype(compute_accumulator_dtype(ufunc, array.dtype)), axis=axis)
            found.append(np.flip(running, axis) if from_end else running)
        return tuple(found)
    length, covered = arrays[0].shape[axis], 1
    while covered < length:
        early, late = _on_axis(axis, slice(0, length - covered)), _on_axis(axis, slice(covered, None))
        rest = _on_axis(axis, slice(length - covered, None) if from_end else slice(0, covered))
        combined = reducer.combine([a[early] for a in arrays], [a[late] for a in arrays])
        pairs = [(c, a[rest]) if from_end else (a[rest], c) for c, a in zip(combined, arrays, strict=True)]
        arrays = tuple([np.concatenate(pair, axis) for pair in pairs])
        covered *= 2
    return arrays


def reduce_windows(
    arrays: tuple[Array, ...], inits: tuple[Array, ...], window: Window, result: tuple[int, ...], reducer: Reducer
) -> tuple[Array, ...]:
    """Returns one fold per window, each of shape `result`, that starts from the initial values; padding counts as
    nothing."""
    dtypes = [array.dtype for array in arrays]
    if reducer.ufuncs:
        wide = [compute_accumulator_dtype(u, d) for u, d in zip(reducer.ufuncs, dtypes, strict=True)]
    else:
        wide = dtypes
    totals = tuple([np.full(result, init, d) for init, d in zip(inits, wide, strict=True)])
    running = _find_running_axis(window, arrays[0].shape)
    if running is not None:
        totals = _combine(totals, _scan(arrays, *running, reducer), reducer)
    else:
        bases = [pad_base(a, window, init) for a, init in zip(arrays, inits, strict=True)]
        inside = None if reducer.is_neutral(inits) else pad_base(np.ones(arrays[0].shape, np.bool_), window, _FALSE)
        for where in iterate_window(window, result):
            combined = _combine(totals, [base[where] for base in bases], reducer)
            if inside is not None:
                combined = [np.where(inside[where], new, old) for new, old in zip(combined, totals, strict=True)]
            totals = tuple(combined)
    return tuple([total.astype(d, copy=False) for total, d in zip(totals, dtypes, strict=True)])


def _combine(totals: Sequence[Array], values: Sequence[Array], reducer: Reducer) -> tuple[Array, ...]:
    if not reducer.ufuncs:
        return reducer.combine(totals, values)
    triples = zip(reducer.ufuncs, totals, values, strict=True)
    return tuple([ufunc(total, value.astype(total.dtype, copy=False)) for ufunc, total, value in triples])


def evaluate_reduce_window(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Operands: the arrays, then as many initial values."""
    arrays = tuple([np.asarray(operand) for operand in operands])
    count = len(arrays) // 2
    window = instruction.proto.window
    _check(instruction, window)
    shape = instruction.shape.tuple_shapes[0] if is_tuple(instruction.shape) else instruction.shape
    result = get_dimensions(shape)
    reducer = parse_reducer(instruction.called_computations[0], count, scope)
    if 0 in result:
        found = tuple([np.zeros(result, a.dtype) for a in arrays[:count]])
    else:
        with np.errstate(all="ignore"):
            found = reduce_windows(arrays[:count], arrays[count:], window, result, reducer)
    return found if is_tuple(instruction.shape) else found[0]


def _check(instruction: HloInstruction, window: Window) -> None:
    if any(d.window_reversal for d in window.dimensions):
        raise NotCoveredError(f"{instruction.opcode} over a reversed window")


def evaluate_select_and_scatter(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Operands: the array, one source value per window, and the initial value.

    Each window picks one element that is no padding; the source values are combined into the elements that were picked.
    """
    array, source, init = (np.asarray(operand) for operand in operands)
    window = instruction.proto.window
    _check(instruction, window)
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


WINDOWS: Mapping[str, Evaluate] = {
    "reduce-window": evaluate_reduce_window,
    "select-and-scatter": evaluate_select_and_scatter,
}
