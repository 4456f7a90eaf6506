"""Splat, expand, broadcast, transpose and reshape of the numbers of `index_values`."""

from math import prod

import numpy as np

from ligerdiag.effects.index_values import (
    UNKNOWN,
    Array,
    Box,
    Budget,
    Dense,
    Linear,
    Shape,
    Value,
    make_dense,
)


def splat(value: Value, shape: Shape) -> Value:
    """Returns a scalar as a tensor."""
    match value:
        case Linear():
            return Linear(base=value.base, steps=(None,) * len(shape), shape=shape)
        case Box():
            return Box(gate=value.gate, intervals=(None,) * len(shape), shape=shape)
        case Dense():
            return Dense(data=value.data.reshape(-1, *(1,) * len(shape)), shape=shape)
        case _:
            return UNKNOWN


def expand_dims(value: Value, axis: int) -> Value:
    """Returns a dimension of size 1 at `axis`."""
    if not isinstance(value, Linear | Box | Dense):
        return UNKNOWN
    shape = (*value.shape[:axis], 1, *value.shape[axis:])
    match value:
        case Linear():
            return Linear(base=value.base, steps=(*value.steps[:axis], None, *value.steps[axis:]), shape=shape)
        case Box():
            intervals = (*value.intervals[:axis], None, *value.intervals[axis:])
            return Box(gate=value.gate, intervals=intervals, shape=shape)
        case Dense():
            return Dense(data=np.expand_dims(value.data, axis + 1), shape=shape)


def broadcast(value: Value, shape: Shape) -> Value:
    """Dimensions of size 1 to larger ones."""
    if not isinstance(value, Linear | Box | Dense) or len(value.shape) != len(shape):
        return UNKNOWN
    if any(old not in (1, new) for old, new in zip(value.shape, shape, strict=True)):
        return UNKNOWN
    match value:
        case Linear():
            steps = tuple(None if old == 1 else step for step, old in zip(value.steps, value.shape, strict=True))
            return Linear(base=value.base, steps=steps, shape=shape)
        case Box():
            gate = value.gate
            intervals: list[tuple[Array, Array] | None] = []
            for interval, old in zip(value.intervals, value.shape, strict=True):
                if interval is not None and old == 1:
                    gate = gate & (interval[0] <= 0) & (interval[1] > 0)
                intervals.append(None if old == 1 else interval)
            return Box(gate=gate, intervals=tuple(intervals), shape=shape)
        case Dense():
            return Dense(data=value.data, shape=shape)


def transpose(value: Value, order: tuple[int, ...]) -> Value:
    """Dimension k of the result is dimension order[k] of the value."""
    if not isinstance(value, Linear | Box | Dense) or sorted(order) != list(range(len(value.shape))):
        return UNKNOWN
    shape = tuple(value.shape[axis] for axis in order)
    match value:
        case Linear():
            return Linear(base=value.base, steps=tuple(value.steps[axis] for axis in order), shape=shape)
        case Box():
            return Box(gate=value.gate, intervals=tuple(value.intervals[axis] for axis in order), shape=shape)
        case Dense():
            return Dense(data=value.data.transpose(0, *(axis + 1 for axis in order)), shape=shape)


def reshape(value: Value, shape: Shape, budget: Budget) -> Value:
    """Returns the elements in the same order in another shape."""
    if not isinstance(value, Linear | Box | Dense) or prod(value.shape) != prod(shape):
        return UNKNOWN
    if value.shape == shape:
        return value
    if not isinstance(value, Dense) and value.is_uniform:
        return splat(Linear(base=value.base) if isinstance(value, Linear) else Box(gate=value.gate), shape)
    dense = make_dense(value, budget).data
    budget.spend(dense.shape[0] * prod(shape))
    full = np.broadcast_to(dense, (dense.shape[0], *value.shape))
    return Dense(data=full.reshape(dense.shape[0], *shape), shape=shape)
