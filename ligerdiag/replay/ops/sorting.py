"""Computes `sort` and `topk`, XLA:GPU's `TopK` and CUB's radix sort. All keep the order of equal elements.

A comparator is a computation of pairs of scalars, called with whole arrays; its order is a stable permutation along the
last dimension. The most frequent orders, such as ascending ones, are guessed and sorted by NumPy. A guess is right if
the comparator confirms it for all neighbours, because for a strict weak order there is only one stable permutation. Any
other order is found by merging, with a call of the comparator at each step.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value


def compute_rank(values: Array, *, canonical: bool) -> Array:
    """Returns integers that have the same order as the values: -NaN < -inf < -0 < 0 < inf < NaN.

    canonical: whether both zeros are equal, and all NaN are equal and larger than inf, as when JAX sorts floats.
    """
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if canonical:
        positive_nan = np.abs(np.array(np.nan, values.dtype))
        values = np.where(values == 0, np.zeros((), values.dtype), values)
        values = np.where(np.isnan(values), positive_nan, values)
    bits: Array = np.ascontiguousarray(values).view(np.dtype(f"i{values.dtype.itemsize}"))
    most: int = np.iinfo(bits.dtype).max
    return np.bitwise_xor(bits, most, where=bits < 0, out=bits.copy())


def compute_order(comparator: int, arrays: Sequence[Array], scope: Scope) -> Array:
    """Sorts each row by the comparator. Returns the positions of its elements in sorted order, as s64[.., n]. Equal
    elements keep their order.

    comparator: id of a computation that compares two elements of each array. arrays: all of shape [.., n].
    """
    rows = [np.ascontiguousarray(a).reshape(-1, a.shape[-1]) for a in arrays]
    if not rows[0].size:
        return np.zeros(arrays[0].shape, np.int64)
    for order in _guess(rows):
        if _is_order(comparator, rows, order, scope):
            return order.reshape(arrays[0].shape)
    return _merge_sort(comparator, rows, scope).reshape(arrays[0].shape)


def _guess(rows: Sequence[Array]) -> Iterator[Array]:
    first = rows[0]
    if first.dtype.kind == "c":
        return
    keys = compute_rank(first, canonical=True)
    yield np.argsort(keys, axis=-1, kind="stable")
    yield np.argsort(~keys, axis=-1, kind="stable")
    if len(rows) > 1 and all(row.dtype.kind != "c" for row in rows):
        yield np.lexsort([compute_rank(row, canonical=True) for row in reversed(rows)], axis=-1)
    bits = compute_rank(first, canonical=False)
    if not np.array_equal(bits, keys):
        yield np.argsort(bits, axis=-1, kind="stable")
        yield np.argsort(~bits, axis=-1, kind="stable")


def _is_order(comparator: int, rows: Sequence[Array], order: Array, scope: Scope) -> bool:
    """Returns whether `order` sorts the rows as the comparator does: it puts no element before a smaller one, and equal
    ones keep their order.
    """
    sorted_rows = [np.take_along_axis(row, order, -1) for row in rows]
    left, right = [row[:, :-1] for row in sorted_rows], [row[:, 1:] for row in sorted_rows]
    if _comes_before(comparator, right, left, scope).any():
        return False
    keeps_place = order[:, :-1] < order[:, 1:]
    return bool((_comes_before(comparator, left, right, scope) | keeps_place).all())


def _comes_before(comparator: int, left: Sequence[Array], right: Sequence[Array], scope: Scope) -> Array:
    arguments = [side for pair in zip(left, right, strict=True) for side in pair]
    return np.broadcast_to(np.asarray(scope.call(comparator, arguments)), left[0].shape)


def _merge_sort(comparator: int, rows: Sequence[Array], scope: Scope) -> Array:
    """Returns, for each row, the positions of its elements in the comparator's order, s64[rows, n], by merging runs of
    doubling length.

    Each step finds the places of all elements at once: each element is bisected into the run that its own run is merged
    with.
    """
    count, length = rows[0].shape
    place = np.arange(length, dtype=np.int64)
    order: Array = np.broadcast_to(place, (count, length)).copy()
    run = 1
    while run < length:
        current = [np.take_along_axis(row, order, -1) for row in rows]
        own_start: Array = place // run * run
        is_left: Array = (place // run) % 2 == 0
        other_start: Array = np.where(is_left, own_start + run, own_start - run).clip(0, length)
        low: Array = np.broadcast_to(other_start, (count, length)).copy()
        high: Array = np.broadcast_to((other_start + run).clip(0, length), (count, length)).copy()
        while (low < high).any():
            middle: Array = (low + high) // 2
            probe = [np.take_along_axis(row, middle.clip(0, length - 1), -1) for row in current]
            # an element of the left run precedes equal ones of the right run, so the sort is stable
            earlier = np.where(
                is_left,
                _comes_before(comparator, probe, current, scope),
                ~_comes_before(comparator, current, probe, scope),
            )
            is_open = low < high
            low, high = np.where(is_open & earlier, middle + 1, low), np.where(is_open & ~earlier, middle, high)
        target = np.minimum(own_start, other_start) + (place - own_start) + (low - other_start)
        merged = np.empty_like(order)
        np.put_along_axis(merged, target, order, -1)
        order = merged
        run *= 2
    return order


def evaluate_sort(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates `sort`: returns all operands, sorted along one dimension in the comparator's order."""
    arrays = [np.asarray(operand) for operand in operands]
    dimension = instruction.proto.dimensions[0]
    moved = [np.moveaxis(array, dimension, -1) for array in arrays]
    order = compute_order(instruction.called_computations[0], moved, scope)
    results = [np.moveaxis(np.take_along_axis(array, order, -1), -1, dimension) for array in moved]
    return tuple(results) if is_tuple(instruction.shape) else results[0]


def compute_top(values: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """Returns the k largest or smallest elements of the last dimension, and their positions as s64. The order is that
    of `compute_rank`.
    """
    ranks = compute_rank(values, canonical=False)
    order = np.argsort(~ranks if largest else ranks, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(values, order, -1), order


def evaluate_topk(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates `topk`: returns the `k` largest or smallest elements of the last dimension, and their positions."""
    values, positions = compute_top(np.asarray(operands[0]), instruction.proto.k, largest=instruction.proto.largest)
    return values, positions.astype(get_dtype(instruction.shape.tuple_shapes[1]))


ORDERING: Mapping[str, Evaluate] = {"sort": evaluate_sort, "topk": evaluate_topk}


def evaluate_topk_call(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates the custom call `TopK`: returns the largest elements of the last dimension, and their positions.

    The comparator of the call only says whether the largest or the smallest are wanted. Its dtype may differ from the
    operand's, because XLA took the comparator from an older instruction.
    """
    for comparator in instruction.called_computations:
        if scope.module.computations[comparator].root.proto.comparison_direction != "GT":
            raise NotCoveredError("the custom call TopK for the smallest elements")
    shapes = instruction.shape.tuple_shapes
    if len(shapes) != 2:
        raise ArtifactError(
            f"expected two results of `{instruction.name}`, values and positions, but got {len(shapes)}"
        )
    values, positions = compute_top(np.asarray(operands[0]), get_dimensions(shapes[0])[-1], largest=True)
    return values, positions.astype(get_dtype(shapes[1]))


def _is_row_major(shape: ShapeProto) -> bool:
    order = list(shape.layout.minor_to_major)
    return order == sorted(order, reverse=True)


def evaluate_radix_sort(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates CUB's radix sort of keys, or of keys and values, along the last dimension.

    CUB orders floats by sign and magnitude, with both zeros equal. The last result is scratch memory, zeros here.
    """
    shapes = instruction.shape.tuple_shapes
    if len(operands) not in (1, 2) or not all(_is_row_major(o.shape) for o in instruction.operands):
        raise NotCoveredError(f"the custom call {instruction.proto.custom_call_target} with {len(operands)} operands")
    try:
        config: Any = json.loads(instruction.proto.backend_config or b"{}")
    except ValueError as error:
        raise ArtifactError(f"the backend_config of `{instruction.name}` is not JSON") from error
    arrays = [np.asarray(operand) for operand in operands]
    keys = arrays[0]
    if keys.dtype.kind not in "iub":
        keys = np.where(keys == 0, np.zeros((), keys.dtype), keys)
    ranks = compute_rank(keys, canonical=False)
    order = np.argsort(~ranks if config.get("descending") else ranks, axis=-1, kind="stable")
    results: list[Array] = [np.take_along_axis(array, order, -1) for array in arrays]
    results += [np.zeros(get_dimensions(shape), get_dtype(shape)) for shape in shapes[len(results) :]]
    return tuple(results)
