"""The operations of Triton IR on the numbers of `index_values`; Unknown where they are not followed.

Sources: the `arith` dialect's definitions in MLIR (two's complement, division that rounds to zero) and Triton 3.6's
TritonOps.td. An operation that would be undefined in some program, as a division by zero, gives Unknown.
"""

from collections.abc import Callable

import numpy as np

from ligerdiag.effects.index_masks import add, ceil_divide, compute_logic
from ligerdiag.effects.index_values import (
    LARGEST,
    UNKNOWN,
    Array,
    Box,
    Budget,
    Dense,
    Elements,
    Linear,
    Mask,
    Unknown,
    Value,
    compute_bounds,
    make_dense,
    wrap,
)


def _divide(a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


_ELEMENTWISE: dict[str, Callable[[Array, Array], Array]] = {
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divide,
    "arith.remsi": lambda a, b: a - _divide(a, b) * b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.ceildivsi": ceil_divide,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": np.right_shift,
}
_DIVISIONS = frozenset(
    {"arith.divsi", "arith.remsi", "arith.divui", "arith.remui", "arith.ceildivsi", "arith.floordivsi"}
)
_UNSIGNED = frozenset({"arith.divui", "arith.remui", "arith.minui", "arith.maxui", "arith.shrui"})
_SHIFTS = frozenset({"arith.shli", "arith.shrsi", "arith.shrui"})
BINARY = frozenset({"arith.addi", "arith.subi", *_ELEMENTWISE})


def compute_binary(  # noqa: PLR0917
    name: str, left: Value, right: Value, bits: int, budget: Budget, active: Mask | None = None
) -> Value:
    """Returns the result of an operation on two integers, or truth values if `bits` is 1.

    active: [programs], those whose result counts; what an operation does not define for others does not matter.
    """
    if bits == 1:
        return compute_logic(name, left, right, budget)
    if not isinstance(left, Linear | Dense) or not isinstance(right, Linear | Dense) or left.shape != right.shape:
        return UNKNOWN
    if isinstance(left, Linear) and isinstance(right, Linear):
        if name in ("arith.addi", "arith.subi"):
            budget.spend(max(left.base.size, right.base.size))
            return wrap(add(left, right, 1 if name == "arith.addi" else -1), bits, budget)
        if name == "arith.muli":
            product = _multiply(left, right, budget)
            if product is not None:
                return wrap(product, bits, budget) if isinstance(product, Linear) else product
        if left.is_uniform and right.is_uniform:
            found = _compute_elements(name, left.base, right.base, bits, budget, active)
            if found is None:
                return UNKNOWN
            return wrap(Linear(base=found, steps=left.steps, shape=left.shape), bits, budget)
    one, other = make_dense(left, budget), make_dense(right, budget)
    found = _compute_elements(name, one.data, other.data, bits, budget, active)
    return UNKNOWN if found is None else wrap(Dense(data=found, shape=left.shape), bits, budget)


def _compute_elements(  # noqa: PLR0917
    name: str, left: Elements, right: Elements, bits: int, budget: Budget, active: Mask | None
) -> Array | None:
    a, b = left.astype(np.int64), right.astype(np.int64)
    budget.spend(int(np.prod(np.broadcast_shapes(a.shape, b.shape))))
    if name in ("arith.addi", "arith.subi"):
        return a + b if name == "arith.addi" else a - b
    x, y = _take_active(a, active), _take_active(b, active)
    if not x.size or not y.size:
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.int64)
    if name in _UNSIGNED and (x.min() < 0 or y.min() < 0):
        return None
    if name in _DIVISIONS:
        if (y == 0).any():
            return None
        b = np.where(b == 0, 1, b)
    if name in _SHIFTS:
        if y.min() < 0 or y.max() >= min(bits, 62):
            return None
        b = np.clip(b, 0, 62)
    largest = int(max(abs(int(x.min())), abs(int(x.max()))))
    factor = int(max(abs(int(y.min())), abs(int(y.max()))))
    if name == "arith.muli" and largest * factor > LARGEST:
        return None
    if name == "arith.shli" and largest << factor > LARGEST:
        return None
    return _ELEMENTWISE[name](a, b)


def _take_active(array: Array, active: Mask | None) -> Array:
    return array if active is None or array.shape[0] != active.size or active.size == 1 else array[active]


def _multiply(left: Linear, right: Linear, budget: Budget) -> Linear | Unknown | None:
    """Returns the result; None if neither is the same for all elements of a program."""
    if not right.is_uniform:
        left, right = right, left
    if not right.is_uniform:
        return None
    low, high = compute_bounds(left)
    factor = max(map(abs, compute_bounds(right)))
    if max(abs(low), abs(high)) * factor > LARGEST:
        return UNKNOWN
    budget.spend(max(left.base.size, right.base.size))
    steps = [None if step is None else step * right.base for step in left.steps]
    steps = [step if step is not None and step.any() else None for step in steps]
    return Linear(base=left.base * right.base, steps=tuple(steps), shape=left.shape)


def convert(value: Value, name: str, source_bits: int, target_bits: int, budget: Budget) -> Value:
    """`arith.extsi`, `extui`, `trunci`, `index_cast`: between integers of these widths."""
    if source_bits == 1:
        if target_bits == 1 or not isinstance(value, Box | Dense):
            return value if target_bits == 1 else UNKNOWN
        sign = -1 if name == "arith.extsi" else 1
        data = sign * make_dense(value, budget).data.astype(np.int64)
        if isinstance(value, Box) and value.is_uniform:
            return Linear(base=data.reshape(-1), steps=(None,) * len(value.shape), shape=value.shape)
        return Dense(data=data, shape=value.shape)
    if not isinstance(value, Linear | Dense):
        return UNKNOWN
    if name == "arith.extui" and compute_bounds(value)[0] < 0:
        return UNKNOWN
    if target_bits != 1:
        return wrap(value, target_bits, budget)
    data = make_dense(value, budget).data % 2 != 0
    if isinstance(value, Linear) and value.is_uniform:
        return Box(gate=data.reshape(-1), intervals=(None,) * len(value.shape), shape=value.shape)
    return Dense(data=data, shape=value.shape)
