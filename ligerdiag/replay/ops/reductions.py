"""Computes `reduce`, `scan` and `reduce-window`: folds by a computation that combines two values of each operand into
one.

Most reducers are a single operation, which NumPy has as a ufunc; any other reducer is called with whole arrays and works
element by element. Floats are added in f64 and the sum is rounded once; other ufuncs compute narrow floats (f16, bf16, f8)
in f32. XLA's semantics rounds after each addition, and a GPU adds in f32 in its own order. The sum here is closer to the
true sum than both, and independent of the order.

`reduce` applies a reducer that is not a ufunc as a tree that keeps the elements' order. XLA promises no order and so
requires an associative reducer, for which the tree equals a fold from the left.

`scan` carries values along one dimension, as JAX emits it for cumulative sums. Its operands are inputs and then
`num_carries` carries. Its computation takes one slice of each input, without the dimension, and the carries; it returns
one slice of each output and the next carries. The result is the outputs and the last carries. Checked against XLA:CPU,
which may compute associative scans in any order.

`reduce-window` folds windows that slide over the operands. A window that extends from one end of a dimension to each element
is a running fold (`cumsum`). It is computed in one pass, or in a logarithmic number of calls of the reducer.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.xla_pb2 import Window, WindowDimension
from ligerdiag.replay.ops.dtypes import NARROW_FLOATS, DType, get_dimensions, get_dtype
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value

type UFunc = Any

_UFUNCS: Mapping[str, UFunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ON_PREDICATES: Mapping[str, UFunc] = {
    **_UFUNCS,
    "add": np.logical_or,
    "multiply": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
}
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reducer:
    """The computation that a `reduce` or a scatter calls: it combines two values of each operand into one."""

    computation: int
    scope: Scope
    ufuncs: tuple[UFunc, ...]
    """NumPy's function for each operand; empty if the computation is anything else than one operation for each operand."""
    keeps_second: bool
    """Whether the computation returns its second arguments, so that a scatter replaces the old elements."""

    def combine(self, first: Sequence[Array], second: Sequence[Array]) -> tuple[Array, ...]:
        """Combines arrays of one shape element by element. It evaluates the reducer's computation and uses no ufunc of
        NumPy.
        """
        shape = first[0].shape
        value = self.scope.call(self.computation, (*first, *second))
        arrays = value if isinstance(value, tuple) else (value,)
        return tuple([np.broadcast_to(np.asarray(array), shape) for array in arrays])

    def is_neutral(self, inits: Sequence[Array]) -> bool:
        """Returns whether the initial values, combined with themselves, stay the same. If so, padding with the initial
        values does not change the fold of a window.
        """
        again = self.combine(inits, inits)
        return all(np.array_equal(a, b) for a, b in zip(again, inits, strict=True))


def parse_reducer(computation: int, count: int, scope: Scope) -> Reducer:
    """Returns the reducer whose computation has the id `computation`.

    count: number of arrays that the reducer combines in one call.
    """
    callee = scope.module.computations[computation]
    root = callee.root
    roots = root.operands if is_tuple(root.shape) and root.opcode == "tuple" else (root,)
    parameters = callee.parameters
    found: list[UFunc] = []
    if len(roots) == count and len(parameters) == 2 * count:
        for number, result in enumerate(roots):
            ufunc = _recognise(result, parameters[number], parameters[number + count])
            if ufunc is not None:
                found.append(ufunc)
    return Reducer(
        computation=computation,
        scope=scope,
        ufuncs=tuple(found) if len(found) == count else (),
        keeps_second=tuple(r.id for r in roots) == tuple(p.id for p in parameters[count:]),
    )


def _recognise(result: HloInstruction, first: HloInstruction, second: HloInstruction) -> UFunc | None:
    """Returns the NumPy ufunc that is equivalent to a reducer whose parameters are `first` and `second` and whose
    result is `result`; None if there is none. Narrow floats may be widened for the operation and rounded afterwards.
    """
    inner = _strip_convert(result, narrow=first)
    if len(inner.operands) != 2 or is_tuple(inner.shape):
        return None
    left, right = (_strip_convert(operand, narrow=None) for operand in inner.operands)
    if {left.id, right.id} != {first.id, second.id}:
        return None
    table = _ON_PREDICATES if get_dtype(first.shape) == np.bool_ else _UFUNCS
    return table.get(inner.opcode)


def _strip_convert(instruction: HloInstruction, *, narrow: HloInstruction | None) -> HloInstruction:
    """Returns the operand of a conversion between a narrow float and a wider one, so that widening, adding and rounding
    count as one addition; returns any other instruction unchanged.

    narrow: a parameter of the reducer if the instruction is the reducer's result, of which a conversion to the
    parameter's narrow dtype is removed; None if it is an operand, of which a conversion to a wider dtype is removed.
    """
    if instruction.opcode != "convert":
        return instruction
    source = instruction.operands[0]
    small, wide = (instruction, source) if narrow is not None else (source, instruction)
    if get_dtype(small.shape) in NARROW_FLOATS and get_dtype(wide.shape) in _WIDE:
        return source
    return instruction


def compute_accumulator_dtype(ufunc: UFunc, dtype: DType) -> DType:
    """Returns the dtype in which a ufunc accumulates values of the given dtype."""
    if dtype in NARROW_FLOATS:
        return np.dtype(np.float64 if ufunc is np.add else np.float32)
    if ufunc is np.add and dtype == np.float32:
        return np.dtype(np.float64)
    if ufunc is np.add and dtype == np.complex64:
        return np.dtype(np.complex128)
    return dtype


def reduce_arrays(
    arrays: Sequence[Array], inits: Sequence[Array], dimensions: Sequence[int], reducer: Reducer
) -> tuple[Array, ...]:
    """Folds the arrays over `dimensions` with the reducer and returns the results.

    inits: for each array, the scalar from which its fold starts.
    """
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
    """Folds the arrays by combining neighbours until one element is left, in a logarithmic number of calls on whole
    arrays.
    """
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
    """Evaluates `reduce`. Operands: the arrays, then an initial value for each of them."""
    arrays = [np.asarray(operand) for operand in operands]
    count = len(arrays) // 2
    reducer = parse_reducer(instruction.called_computations[0], count, scope)
    results = reduce_arrays(arrays[:count], arrays[count:], tuple(instruction.proto.dimensions), reducer)
    return results if is_tuple(instruction.shape) else results[0]


REDUCTION: Mapping[str, Evaluate] = {"reduce": evaluate_reduce}


def _scan(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    arrays = [operand for operand in operands if not isinstance(operand, tuple)]
    carries = instruction.proto.num_carries
    axis = instruction.proto.dimensions[0] if instruction.proto.dimensions else 0
    split = len(arrays) - carries
    if len(arrays) != len(operands) or split < 1 or any(axis >= array.ndim for array in arrays[:split]):
        raise ArtifactError(
            f"`{instruction.name}` is a scan with a tuple as operand, without inputs, or along a dimension that an "
            "input does not have"
        )
    inputs, state = arrays[:split], list(arrays[split:])
    shapes = instruction.shape.tuple_shapes
    outputs: list[Array] = [np.empty(get_dimensions(s), get_dtype(s)) for s in shapes[: len(shapes) - carries]]
    length = inputs[0].shape[axis]
    for step in reversed(range(length)) if instruction.proto.is_reverse else range(length):
        slices = [np.take(array, step, axis) for array in inputs]
        results = scope.call(instruction.called_computations[0], (*slices, *state))
        if not isinstance(results, tuple) or len(results) != len(outputs) + carries:
            raise ArtifactError(
                f"`{instruction.name}` calls a computation whose result is not a tuple of all outputs and carries"
            )
        values = [np.asarray(result) for result in results]
        for output, value in zip(outputs, values, strict=False):
            output[(slice(None),) * axis + (step,)] = value
        state = values[len(outputs) :]
    return (*outputs, *state)


SCAN: Mapping[str, Evaluate] = {"scan": _scan}


_FALSE = np.zeros((), np.bool_)


def pad_base(array: Array, window: Window, fill: Array) -> Array:
    """Puts gaps between the elements of the array (the window's base dilation) and padding around it. Both are filled
    with `fill`. Negative padding crops the array.
    """
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
    """Yields a tuple of slices for each position within a window, in row-major order. The slices of a position select
    the elements at this position of all windows from the padded array.

    result: shape of the result, which has one element for each window.
    """
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
    """Returns (axis of a running fold, whether it runs from the end); None for any other window.

    A running fold has a window that reaches from one end of the axis to each element.
    """
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


def _fold_running(arrays: tuple[Array, ...], axis: int, from_end: bool, reducer: Reducer) -> tuple[Array, ...]:
    """Returns running folds along an axis: each result covers all elements from one end up to its own place.

    Without ufuncs, each pass doubles the number of elements that each result covers.
    """
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
    """Folds each window of the arrays and returns the results, arrays of shape `result`. Each fold starts from the
    initial values and ignores padding.
    """
    dtypes = [array.dtype for array in arrays]
    if reducer.ufuncs:
        wide = [compute_accumulator_dtype(u, d) for u, d in zip(reducer.ufuncs, dtypes, strict=True)]
    else:
        wide = dtypes
    totals = tuple([np.full(result, init, d) for init, d in zip(inits, wide, strict=True)])
    running = _find_running_axis(window, arrays[0].shape)
    if running is not None:
        totals = _combine(totals, _fold_running(arrays, *running, reducer), reducer)
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
    """Evaluates `reduce-window`. Operands: the arrays, then an initial value for each of them."""
    arrays = tuple([np.asarray(operand) for operand in operands])
    count = len(arrays) // 2
    window = instruction.proto.window
    check_window(instruction, window)
    shape = instruction.shape.tuple_shapes[0] if is_tuple(instruction.shape) else instruction.shape
    result = get_dimensions(shape)
    reducer = parse_reducer(instruction.called_computations[0], count, scope)
    if 0 in result:
        found = tuple([np.zeros(result, a.dtype) for a in arrays[:count]])
    else:
        with np.errstate(all="ignore"):
            found = reduce_windows(arrays[:count], arrays[count:], window, result, reducer)
    return found if is_tuple(instruction.shape) else found[0]


def check_window(instruction: HloInstruction, window: Window) -> None:
    if any(d.window_reversal for d in window.dimensions):
        raise NotCoveredError(f"{instruction.opcode} with a reversed window")


WINDOWS: Mapping[str, Evaluate] = {
    "reduce-window": evaluate_reduce_window,
}
