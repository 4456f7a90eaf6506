"""Computes comparisons, logic and selects of index values, and changes their shapes (splat, expand, broadcast, transpose,
reshape).

*Index values* are the integers, booleans and addresses of a kernel for all programs of a launch (see `index_values`).
`index_arithmetic` names the sources.
"""

from math import prod

import numpy as np

from ligerdiag.effects.launches.index_values import (
    UNKNOWN,
    Budget,
    Dense,
    IndexArray,
    IndexValue,
    Linear,
    MaskBox,
    Shape,
    compute_bounds,
    make_dense,
    make_truth,
)

COMPARISONS = frozenset({"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"})


def ceil_divide(a: IndexArray, b: IndexArray) -> IndexArray:
    """Returns `a / b` rounded up, element by element."""
    return -((-a) // b)


def add(left: Linear, right: Linear, sign: int) -> Linear:
    """Returns `left + sign * right`. `left` and `right` must have the same shape; `sign` is 1 or -1."""
    steps: list[IndexArray | None] = []
    for one, other in zip(left.steps, right.steps, strict=True):
        if other is None:
            steps.append(one)
        else:
            total = sign * other if one is None else one + sign * other
            steps.append(total if total.any() else None)
    return Linear(base=left.base + sign * right.base, steps=tuple(steps), shape=left.shape)


def compute_logic(name: str, left: IndexValue, right: IndexValue, budget: Budget) -> IndexValue:
    """Returns the result of an operation, such as `arith.andi`, on two booleans."""
    known = [value for value in (left, right) if isinstance(value, MaskBox | Dense)]
    if len(known) < 2:
        # false and anything is false, true or anything is true.
        for value in known:
            if isinstance(value, MaskBox) and value.is_uniform:
                if name in ("arith.andi", "arith.muli") and not value.gate.any():
                    return value
                if name == "arith.ori" and value.gate.all():
                    return value
        return UNKNOWN
    one, other = known
    if one.shape != other.shape:
        return UNKNOWN
    if isinstance(one, MaskBox) and isinstance(other, MaskBox):
        if name in ("arith.andi", "arith.muli"):
            return _intersect(one, other)
        if one.is_uniform and other.is_uniform and name in ("arith.ori", "arith.xori"):
            gate = one.gate | other.gate if name == "arith.ori" else one.gate ^ other.gate
            return MaskBox(gate=gate, intervals=one.intervals, shape=one.shape)
    a, b = make_dense(one, budget).data.astype(bool), make_dense(other, budget).data.astype(bool)
    budget.spend(int(np.prod(np.broadcast_shapes(a.shape, b.shape))))
    match name:
        case "arith.andi" | "arith.muli":
            return Dense(data=a & b, shape=one.shape)
        case "arith.ori":
            return Dense(data=a | b, shape=one.shape)
        case "arith.xori" | "arith.addi" | "arith.subi":
            return Dense(data=a ^ b, shape=one.shape)
        case _:
            return UNKNOWN


def _intersect(one: MaskBox, other: MaskBox) -> MaskBox:
    intervals: list[tuple[IndexArray, IndexArray] | None] = []
    for a, b in zip(one.intervals, other.intervals, strict=True):
        if a is None or b is None:
            intervals.append(a or b)
        else:
            intervals.append((np.maximum(a[0], b[0]), np.minimum(a[1], b[1])))
    return MaskBox(gate=one.gate & other.gate, intervals=tuple(intervals), shape=one.shape)


def compare(predicate: str, left: IndexValue, right: IndexValue, budget: Budget) -> IndexValue:
    """Returns the mask of the elements for which a comparison of integers is true, as `arith.cmpi` does. predicate: the
    comparison, such as `slt`.
    """
    if not isinstance(left, Linear | Dense) or not isinstance(right, Linear | Dense) or left.shape != right.shape:
        return UNKNOWN
    if predicate not in COMPARISONS:
        return UNKNOWN
    if predicate[0] == "u":
        if min(compute_bounds(left)[0], compute_bounds(right)[0]) < 0:
            return UNKNOWN
        predicate = "s" + predicate[1:]
    if isinstance(left, Linear) and isinstance(right, Linear):
        budget.spend(max(left.base.size, right.base.size))
        found = _compare_linear(predicate, add(left, right, -1))
        if found is not None:
            return found
    one, other = make_dense(left, budget).data, make_dense(right, budget).data
    budget.spend(int(np.prod(np.broadcast_shapes(one.shape, other.shape))))
    match predicate:
        case "eq":
            data = one == other
        case "ne":
            data = one != other
        case "slt":
            data = one < other
        case "sle":
            data = one <= other
        case "sgt":
            data = one > other
        case _:
            data = one >= other
    return Dense(data=data, shape=left.shape)


def _compare_linear(predicate: str, difference: Linear) -> MaskBox | None:
    """Returns a mask of the positions at which the comparison of `difference` with zero holds; None if these positions
    form no box, the product of an interval along each dimension.
    """
    base, shape = difference.base, difference.shape
    moving = [axis for axis, step in enumerate(difference.steps) if step is not None]
    everywhere: list[tuple[IndexArray, IndexArray] | None] = [None] * len(shape)
    if not moving:
        gates = {
            "eq": base == 0,
            "ne": base != 0,
            "slt": base < 0,
            "sle": base <= 0,
            "sgt": base > 0,
            "sge": base >= 0,
        }
        return MaskBox(gate=gates[predicate], intervals=tuple(everywhere), shape=shape)
    step = difference.steps[moving[0]]
    if len(moving) > 1 or step is None or predicate in ("eq", "ne") or not ((step > 0).all() or (step < 0).all()):
        return None
    size = shape[moving[0]]
    # Solves step * i + base < 0; for the opposite comparison, step and base are negated.
    if predicate in ("sgt", "sge"):
        base, step = -base, -step
    bound = -base + (1 if predicate in ("sle", "sge") else 0)
    first, last = np.zeros(1, np.int64), np.full(1, size, np.int64)
    if (step > 0).all():
        last = np.clip(ceil_divide(bound, step), 0, size)
    else:
        first = np.clip(bound // step + 1, 0, size)
    everywhere[moving[0]] = (first, last)
    return MaskBox(gate=make_truth(True, ()).gate, intervals=tuple(everywhere), shape=shape)


def select(condition: IndexValue, yes: IndexValue, no: IndexValue, budget: Budget) -> IndexValue:
    """Returns `yes` where the condition is true and `no` elsewhere, as `arith.select` does. The result is Unknown if an
    argument is Unknown, or if `yes` or `no` is a pointer.
    """
    if not isinstance(condition, MaskBox | Dense):
        return UNKNOWN
    if not isinstance(yes, Linear | MaskBox | Dense) or not isinstance(no, Linear | MaskBox | Dense):
        return UNKNOWN
    one, other = make_dense(yes, budget), make_dense(no, budget)
    mask = make_dense(condition, budget).data
    if not condition.shape:
        mask = mask.reshape(-1, *(1,) * len(yes.shape))
    sizes = np.broadcast_shapes(mask.shape, one.data.shape, other.data.shape)
    budget.spend(int(np.prod(sizes)))
    data = np.where(mask, one.data, other.data)
    is_uniform = mask.size == mask.shape[0]
    if is_uniform and isinstance(yes, Linear) and isinstance(no, Linear) and yes.is_uniform and no.is_uniform:
        return Linear(base=data.reshape(-1), steps=yes.steps, shape=yes.shape)
    if not yes.shape and data.dtype == np.bool_:
        return MaskBox(gate=data.reshape(-1))
    return Dense(data=data, shape=yes.shape)


def splat(value: IndexValue, shape: Shape) -> IndexValue:
    """Returns a tensor of shape `shape` whose elements all equal the scalar `value`."""
    match value:
        case Linear():
            return Linear(base=value.base, steps=(None,) * len(shape), shape=shape)
        case MaskBox():
            return MaskBox(gate=value.gate, intervals=(None,) * len(shape), shape=shape)
        case Dense():
            return Dense(data=value.data.reshape(-1, *(1,) * len(shape)), shape=shape)
        case _:
            return UNKNOWN


def expand_dims(value: IndexValue, axis: int) -> IndexValue:
    """Returns a tensor with a new dimension of size 1 at `axis`."""
    if not isinstance(value, Linear | MaskBox | Dense):
        return UNKNOWN
    shape = (*value.shape[:axis], 1, *value.shape[axis:])
    match value:
        case Linear():
            return Linear(base=value.base, steps=(*value.steps[:axis], None, *value.steps[axis:]), shape=shape)
        case MaskBox():
            intervals = (*value.intervals[:axis], None, *value.intervals[axis:])
            return MaskBox(gate=value.gate, intervals=intervals, shape=shape)
        case Dense():
            return Dense(data=np.expand_dims(value.data, axis + 1), shape=shape)


def broadcast(value: IndexValue, shape: Shape) -> IndexValue:
    """Returns a tensor whose dimensions of size 1 are expanded to `shape`."""
    if not isinstance(value, Linear | MaskBox | Dense) or len(value.shape) != len(shape):
        return UNKNOWN
    if any(old not in (1, new) for old, new in zip(value.shape, shape, strict=True)):
        return UNKNOWN
    match value:
        case Linear():
            steps = tuple(None if old == 1 else step for step, old in zip(value.steps, value.shape, strict=True))
            return Linear(base=value.base, steps=steps, shape=shape)
        case MaskBox():
            gate = value.gate
            intervals: list[tuple[IndexArray, IndexArray] | None] = []
            for interval, old in zip(value.intervals, value.shape, strict=True):
                if interval is not None and old == 1:
                    gate = gate & (interval[0] <= 0) & (interval[1] > 0)
                intervals.append(None if old == 1 else interval)
            return MaskBox(gate=gate, intervals=tuple(intervals), shape=shape)
        case Dense():
            return Dense(data=value.data, shape=shape)


def transpose(value: IndexValue, order: tuple[int, ...]) -> IndexValue:
    """Returns a transposed tensor: its dimension k is dimension order[k] of `value`."""
    if not isinstance(value, Linear | MaskBox | Dense) or sorted(order) != list(range(len(value.shape))):
        return UNKNOWN
    shape = tuple(value.shape[axis] for axis in order)
    match value:
        case Linear():
            return Linear(base=value.base, steps=tuple(value.steps[axis] for axis in order), shape=shape)
        case MaskBox():
            return MaskBox(gate=value.gate, intervals=tuple(value.intervals[axis] for axis in order), shape=shape)
        case Dense():
            return Dense(data=value.data.transpose(0, *(axis + 1 for axis in order)), shape=shape)


def reshape(value: IndexValue, shape: Shape, budget: Budget) -> IndexValue:
    """Returns a tensor of shape `shape` with the elements of `value` in the same order."""
    if not isinstance(value, Linear | MaskBox | Dense) or prod(value.shape) != prod(shape):
        return UNKNOWN
    if value.shape == shape:
        return value
    if not isinstance(value, Dense) and value.is_uniform:
        return splat(Linear(base=value.base) if isinstance(value, Linear) else MaskBox(gate=value.gate), shape)
    dense = make_dense(value, budget).data
    budget.spend(dense.shape[0] * prod(shape))
    full = np.broadcast_to(dense, (dense.shape[0], *value.shape))
    return Dense(data=full.reshape(dense.shape[0], *shape), shape=shape)
