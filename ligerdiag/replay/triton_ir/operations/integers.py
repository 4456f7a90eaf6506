"""Evaluates integer operations: `arith` on i1 to i64, which wrap.

Arithmetic of i1 has one bit; a true i1 is -1 if signed. A shift by the width or more gives 0, or the sign, as on a GPU
(a poison value in LLVM). A division by zero gives all ones, and its remainder is the dividend, as on a GPU (undefined
in LLVM). The smallest number divided by -1 wraps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_word
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.values import Sum, Value, add_lazily, parse_type, scale_lazily, to_array

type Compute = Callable[..., Any]
"""Computes an operation: takes the values of its operands and returns its result, or a tuple of results."""
type Prepare = Callable[[Operation, Function], Compute]
"""Reads an operation's attributes once and returns a function that computes it from its operands."""


def on_one(function: Callable[[Value], Any]) -> Compute:
    """Returns the function unchanged. Type checkers verify at each use that the function takes one operand."""
    return function


def on_two(function: Callable[[Value, Value], Any]) -> Compute:
    """Returns the function unchanged. Type checkers verify at each use that the function takes two operands."""
    return function


def on_three(function: Callable[[Value, Value, Value], Any]) -> Compute:
    """Returns the function unchanged. Type checkers verify at each use that the function takes three operands."""
    return function


def view_unsigned(array: Array) -> Array:
    """Returns the same bits as unsigned integers. An array of booleans is returned unchanged."""
    return array if array.dtype == np.bool_ else array.view(f"u{array.dtype.itemsize}")


def view_signed(array: Array) -> Array:
    """Returns the same bits as signed integers. A true boolean becomes -1."""
    return -array.view(np.int8) if array.dtype == np.bool_ else array


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, Sum) or isinstance(right, Sum) or left.dtype != np.bool_:  # type: ignore[union-attr]
        return add_lazily(left, right, _get_dtype(left))  # type: ignore[arg-type]
    return left ^ right  # type: ignore[operator]


def _subtract(left: Value, right: Value) -> Value:
    if isinstance(left, Sum) or isinstance(right, Sum) or left.dtype != np.bool_:  # type: ignore[union-attr]
        return add_lazily(left, right, _get_dtype(left), -1)  # type: ignore[arg-type]
    return left ^ right  # type: ignore[operator]


def _get_dtype(value: Value) -> Any:
    return getattr(value, "dtype")  # noqa: B009


def _multiply(left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Sum) and not isinstance(other, Sum):
            factor = to_array(other)
            if factor.size == 1:
                scaled = scale_lazily(one, int(factor.reshape(-1)[0]), one.dtype)
                if scaled is not None:
                    return scaled
    a, b = to_array(left), to_array(right)
    return a & b if a.dtype == np.bool_ else a * b


def _on_arrays(function: Callable[[Array, Array], Array]) -> Compute:
    def compute(left: Value, right: Value) -> Array:
        return function(to_array(left), to_array(right))

    return compute


def _unsigned(function: Callable[[Array, Array], Array]) -> Compute:
    def compute(left: Value, right: Value) -> Array:
        a, b = to_array(left), to_array(right)
        return function(view_unsigned(a), view_unsigned(b)).astype(view_unsigned(a).dtype, copy=False).view(a.dtype)

    return compute


def divide_signed(left: Array, right: Array) -> Array:
    """Returns the quotient, rounded towards zero. Where the divisor is zero, returns -1."""
    zero = right == 0
    safe = np.where(zero, right.dtype.type(1), right)
    remainder = np.fmod(left, np.where(safe == -1, safe.dtype.type(1), safe))
    quotient = np.where(safe == -1, -left, (left - remainder) // safe)
    return np.where(zero, right.dtype.type(-1), quotient).astype(left.dtype, copy=False)


def take_remainder(left: Array, right: Array) -> Array:
    """Returns the remainder, with the dividend's sign. Where the divisor is zero, returns the dividend."""
    zero = right == 0
    safe = np.where(zero | (right == -1), right.dtype.type(1), right)
    return np.where(zero, left, np.fmod(left, safe)).astype(left.dtype, copy=False)


def _divide_unsigned(left: Array, right: Array) -> Array:
    zero = right == 0
    return np.where(zero, np.iinfo(right.dtype).max, left // np.where(zero, right.dtype.type(1), right))


def _take_unsigned_remainder(left: Array, right: Array) -> Array:
    zero = right == 0
    return np.where(zero, left, left % np.where(zero, right.dtype.type(1), right))


def _divide_down(left: Array, right: Array) -> Array:
    zero = right == 0
    safe = np.where(zero, right.dtype.type(1), right)
    return np.where(zero, right.dtype.type(-1), left // safe)


def _divide_up(left: Array, right: Array) -> Array:
    return -_divide_down(-left, right)


def _shift_left(left: Array, right: Array) -> Array:
    bits = 8 * left.dtype.itemsize
    amount = view_unsigned(right)
    inside = amount < bits
    return np.where(inside, left << np.where(inside, right, 0), left.dtype.type(0)).astype(left.dtype, copy=False)


def _shift_right_signed(left: Array, right: Array) -> Array:
    bits = 8 * left.dtype.itemsize
    amount = np.where(view_unsigned(right) < bits, right, right.dtype.type(bits - 1))
    return left >> amount


def _shift_right_unsigned(left: Array, right: Array) -> Array:
    bits = 8 * left.dtype.itemsize
    inside = right < bits
    return np.where(inside, left >> np.where(inside, right, right.dtype.type(0)), left.dtype.type(0))


_COMPARE: dict[str, tuple[Callable[[Array, Array], Array], bool]] = {
    "eq": (np.equal, True),
    "ne": (np.not_equal, True),
    "slt": (np.less, True),
    "sle": (np.less_equal, True),
    "sgt": (np.greater, True),
    "sge": (np.greater_equal, True),
    "ult": (np.less, False),
    "ule": (np.less_equal, False),
    "ugt": (np.greater, False),
    "uge": (np.greater_equal, False),
}


def _compare(op: Operation, function: Function) -> Compute:
    predicate = parse_word(op.text, "arith.cmpi")
    if predicate not in _COMPARE:
        raise NotCoveredError(f"arith.cmpi with the predicate {predicate}")
    comparison, signed = _COMPARE[predicate]
    view = view_signed if signed else view_unsigned

    def compute(left: Value, right: Value) -> Array:
        return comparison(view(to_array(left)), view(to_array(right)))

    return compute


def _select(op: Operation, function: Function) -> Compute:
    del op, function

    def compute(condition: Value, yes: Value, no: Value) -> Array:
        a, b, gate = to_array(yes), to_array(no), to_array(condition)
        if gate.ndim < a.ndim:  # one condition for a whole tensor
            gate = gate.reshape(*gate.shape, *(1,) * (a.ndim - gate.ndim))
        return np.where(gate, a, b)

    return compute


def _multiply_high(signed: bool) -> Compute:
    def compute(left: Array, right: Array) -> Array:
        bits = 8 * left.dtype.itemsize
        if bits <= 32:
            kind: Any = np.int64 if signed else np.uint64
            a, b = (left, right) if signed else (view_unsigned(left), view_unsigned(right))
            return ((a.astype(kind) * b.astype(kind)) >> kind(bits)).astype(f"i{left.dtype.itemsize}").view(left.dtype)
        half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
        x, y = left.view(np.uint64), right.view(np.uint64)
        middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
        other = (x & low) * (y >> half) + (middle & low)
        high = ((x >> half) * (y >> half) + (middle >> half) + (other >> half)).view(np.int64)
        if signed:
            high = high - np.where(left < 0, right, 0) - np.where(right < 0, left, 0)
        return high.view(left.dtype)

    return _on_arrays(compute)


def _extended(signed: bool) -> Compute:
    high = _multiply_high(signed)

    def compute(left: Value, right: Value) -> tuple[Array, Array]:
        return to_array(left) * to_array(right), high(left, right)

    return compute


def _add_with_carry(left: Value, right: Value) -> tuple[Array, Array]:
    a, b = to_array(left), to_array(right)
    total = a + b
    return total, view_unsigned(total) < view_unsigned(a)


def _count_bits(value: Value) -> Array:
    array = to_array(value)
    return np.bitwise_count(view_unsigned(array)).astype(array.dtype)


def _always(compute: Compute) -> Prepare:
    def prepare(op: Operation, function: Function) -> Compute:
        parse_type(function.types[op.results[0]]).get_dtype()
        return compute

    return prepare


INTEGERS: dict[str, Prepare] = {
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.addi": _always(_add),
    "arith.subi": _always(_subtract),
    "arith.muli": _always(_multiply),
    "arith.divsi": _always(_on_arrays(divide_signed)),
    "arith.remsi": _always(_on_arrays(take_remainder)),
    "arith.divui": _always(_unsigned(_divide_unsigned)),
    "arith.remui": _always(_unsigned(_take_unsigned_remainder)),
    "arith.floordivsi": _always(_on_arrays(_divide_down)),
    "arith.ceildivsi": _always(_on_arrays(_divide_up)),
    "arith.ceildivui": _always(_unsigned(lambda a, b: _divide_unsigned(a, b) + (_take_unsigned_remainder(a, b) != 0))),
    "arith.andi": _always(_on_arrays(np.bitwise_and)),
    "arith.ori": _always(_on_arrays(np.bitwise_or)),
    "arith.xori": _always(_on_arrays(np.bitwise_xor)),
    "arith.shli": _always(_on_arrays(_shift_left)),
    "arith.shrsi": _always(_on_arrays(_shift_right_signed)),
    "arith.shrui": _always(_unsigned(_shift_right_unsigned)),
    "arith.maxsi": _always(_on_arrays(lambda a, b: np.maximum(view_signed(a), view_signed(b)).astype(a.dtype))),
    "arith.minsi": _always(_on_arrays(lambda a, b: np.minimum(view_signed(a), view_signed(b)).astype(a.dtype))),
    "arith.maxui": _always(_unsigned(np.maximum)),
    "arith.minui": _always(_unsigned(np.minimum)),
    "arith.mulsi_extended": _always(_extended(True)),
    "arith.mului_extended": _always(_extended(False)),
    "arith.addui_extended": _always(_add_with_carry),
    "tt.mulhiui": _always(_multiply_high(False)),
    "math.absi": _always(on_one(lambda value: np.abs(to_array(value)))),
    "math.ctpop": _always(on_one(_count_bits)),
}
