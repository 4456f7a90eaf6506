"""Integers and predicates as bits, element by element.

A shift amount is unsigned, so that a negative one is a large one. A shift by the width or more leaves nothing, or, to
the right and arithmetic, copies of the sign.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ligerdiag.replay.opcodes.rounding import elementwise
from ligerdiag.replay.opcodes.scope import Array, Evaluate


def _view_unsigned(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _shift_by(shift: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Any]:
    def compute(operand: Array, amount: Array) -> Any:
        bits, by = _view_unsigned(operand), _view_unsigned(amount)
        width = by.dtype.type(8 * operand.dtype.itemsize)
        inside = np.minimum(by, width - by.dtype.type(1))
        return np.where(by < width, shift(bits, inside), np.zeros((), bits.dtype)).view(operand.dtype)

    return compute


def _shift_right_arithmetic(operand: Array, amount: Array) -> Any:
    signed = operand.view(np.dtype(f"i{operand.dtype.itemsize}"))
    by = _view_unsigned(amount)
    most = by.dtype.type(8 * operand.dtype.itemsize - 1)
    return np.asarray(np.right_shift(signed, np.minimum(by, most).astype(signed.dtype))).view(operand.dtype)


def _count_ones(operand: Array) -> Any:
    return np.bitwise_count(_view_unsigned(operand))


def _count_leading_zeros(operand: Array) -> Any:
    bits: Any = _view_unsigned(operand)
    width = 8 * bits.dtype.itemsize
    distance = 1
    while distance < width:  # smears the highest one over all that is below it
        bits = bits | (bits >> bits.dtype.type(distance))
        distance *= 2
    return width - np.bitwise_count(bits).astype(np.int32)


BITS: Mapping[str, Evaluate] = {
    name: elementwise(compute)
    for name, compute in {
        "and": np.bitwise_and,
        "count-leading-zeros": _count_leading_zeros,
        "not": np.invert,
        "or": np.bitwise_or,
        "popcnt": _count_ones,
        "shift-left": _shift_by(np.left_shift),
        "shift-right-arithmetic": _shift_right_arithmetic,
        "shift-right-logical": _shift_by(np.right_shift),
        "xor": np.bitwise_xor,
    }.items()
}
