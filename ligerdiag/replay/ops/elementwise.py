"""Computes arithmetic, functions, bits, comparisons and choices, element by element.

Bits: a shift amount is unsigned, so a negative one is large. A shift by the width or more gives 0; an arithmetic shift
to the right gives copies of the sign.

Comparisons and choices: `compare` orders floats as IEEE 754 does (NaN is unordered). With `TOTALORDER` it orders them by
sign and magnitude of their bits: -NaN < -inf < -0 < 0 < inf < NaN. `maximum`, `minimum` and `clamp` propagate NaN; of two
zeros of different sign they may return either. The bounds of `clamp` and the predicate of `select` may be scalars if the
other operands are arrays.

Arithmetic: integers wrap around. x / 0 is -1 (all ones), x % 0 is x, INT_MIN / -1 is INT_MIN, INT_MIN % -1 is 0.
Integer division truncates towards zero, and a remainder has the sign of the dividend. An integer power with a negative
exponent is the integer part of the real result: 0, except for bases 1 and -1. Of other exponents XLA's code uses the
lowest six bits. Unsigned powers are computed as signed ones. Addition of predicates is `or`, their multiplication
`and`.

Functions of floats round as NumPy does: a few units in the last place from XLA's results. Complex numbers at poles also
follow NumPy. Subnormal floats are kept, as XLA:GPU keeps them (XLA:CPU flushes them).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.missing_packages import describe_missing, is_missing
from ligerdiag.replay.ops.dtypes import elementwise, get_array, widen
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value


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
    while distance < width:  # copies the highest set bit to all bits below it
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


_where: Any = np.where  # the overloads of `where` cannot follow a dtype made at run time

_DIRECTIONS: Mapping[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _compare(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    left, right = [get_array(instruction, operand) for operand in operands]
    compute = _DIRECTIONS.get(instruction.proto.comparison_direction)
    if compute is None:
        raise ArtifactError(
            f"`{instruction.name}` has the unknown comparison direction `{instruction.proto.comparison_direction}`"
        )
    if instruction.proto.comparison_type == "TOTALORDER" and left.dtype.kind not in "iub":
        return np.asarray(compute(_rank(left), _rank(right)))
    with np.errstate(invalid="ignore"):
        return np.asarray(compute(widen(left), widen(right)))


def _rank(floats: Array) -> Any:
    """Returns signed integers that compare as the floats do in the total order of IEEE 754."""
    bits: Any = floats.view(np.dtype(f"i{floats.dtype.itemsize}"))
    most: int = np.iinfo(bits.dtype).max
    return _where(bits < 0, bits ^ most, bits)


def _clamp(low: Array, operand: Array, high: Array) -> Any:
    return np.minimum(np.maximum(operand, low), high)


def _select(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    predicate, on_true, on_false = [get_array(instruction, operand) for operand in operands]
    if predicate.ndim == 0 and on_true.shape == on_false.shape:
        return on_true if predicate else on_false
    return np.where(predicate, on_true, on_false)


CHOICE: Mapping[str, Evaluate] = {
    "clamp": elementwise(_clamp),
    "compare": _compare,
    "is-finite": elementwise(np.isfinite),
    "maximum": elementwise(np.maximum),
    "minimum": elementwise(np.minimum),
    "select": _select,
}


def _divide(left: Array, right: Array) -> Any:
    if left.dtype.kind not in "iu":
        return np.divide(left, right)
    quotient = (
        left - np.fmod(left, right)
    ) // right  # exact, so it truncates; NumPy gives 0 for x / 0 and does not trap
    return np.where(right == 0, np.array(-1).astype(left.dtype), quotient)


def _remainder(left: Array, right: Array) -> Any:
    remainder = np.fmod(left, right)
    return remainder if left.dtype.kind not in "iu" else np.where(right == 0, left, remainder)


def _power(base: Array, exponent: Array) -> Any:
    if base.dtype.kind in "fc":
        return np.power(base, exponent)
    signed = np.dtype(f"i{base.dtype.itemsize}")
    number, times = base.view(signed), exponent.view(signed)
    odd = (times & 1) != 0
    fraction = np.where(number == 1, 1, np.where(number == -1, np.where(odd, -1, 1), 0)).astype(signed)
    return np.where(times < 0, fraction, np.power(number, times & 63)).view(base.dtype)


def _sign(operand: Array) -> Any:
    if operand.dtype.kind == "c":
        magnitude = np.abs(operand)
        return np.where(magnitude == 0, operand.dtype.type(0), operand / magnitude)
    if operand.dtype.kind == "f":  # NaN and both zeros are their own sign
        return np.where(np.isnan(operand) | (operand == 0), operand, np.copysign(operand.dtype.type(1), operand))
    return np.sign(operand)


def _round_away_from_zero(operand: Array) -> Any:
    whole = np.trunc(operand)
    half_or_more = np.abs(operand - whole) >= 0.5  # exact, unlike operand + 0.5
    return np.copysign(np.abs(whole) + half_or_more.astype(operand.dtype), operand)


def _rsqrt(operand: Array) -> Any:
    return np.reciprocal(np.sqrt(operand))


def _logistic(operand: Array) -> Any:
    one = operand.dtype.type(1)
    return one / (one + np.exp(-operand))


def _erf(operand: Array) -> Any:
    if is_missing("scipy"):
        raise NotCoveredError(describe_missing("erf", "scipy"))
    from scipy.special import erf  # pyright: ignore[reportMissingTypeStubs]  # slow to import, seldom needed

    return erf(operand)


def _cbrt(operand: Array) -> Any:
    if operand.dtype.kind == "c":
        raise NotCoveredError("cbrt of complex numbers")
    return np.cbrt(operand)


def _multiply_high(left: Array, right: Array) -> Any:
    """Returns the upper half of the bits of the product of two integers."""
    bits = 8 * left.dtype.itemsize
    if bits < 64:
        wide = np.int64 if left.dtype.kind == "i" else np.uint64
        return (left.astype(wide) * right.astype(wide)) >> wide(bits)
    a, b, half, low = left.view(np.uint64), right.view(np.uint64), np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (a >> half) * (b & low) + ((a & low) * (b & low) >> half)
    other = (a & low) * (b >> half) + (middle & low)
    high = np.asarray((a >> half) * (b >> half) + (middle >> half) + (other >> half))
    if left.dtype.kind == "u":
        return high
    return high.view(np.int64) - np.where(left < 0, right, 0) - np.where(right < 0, left, 0)


def _subtract(left: Array, right: Array) -> Any:
    if left.dtype == np.bool_:
        raise NotCoveredError("subtract of pred")
    return np.subtract(left, right)


def _combine(real: Array, imaginary: Array) -> Any:
    shape = np.broadcast_shapes(real.shape, imaginary.shape)
    result = np.empty(shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imaginary  # real + 1j * imaginary would lose -0 and make NaN of infinities
    return result


ELEMENTWISE: Mapping[str, Evaluate] = {
    name: elementwise(compute)
    for name, compute in {
        "abs": np.abs,
        "acos": np.arccos,
        "acosh": np.arccosh,
        "add": np.add,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "atanh": np.arctanh,
        "cbrt": _cbrt,
        "ceil": np.ceil,
        "complex": _combine,
        "cosh": np.cosh,
        "cosine": np.cos,
        "divide": _divide,
        "erf": _erf,
        "exponential": np.exp,
        "exponential-minus-one": np.expm1,
        "floor": np.floor,
        "imag": np.imag,
        "log": np.log,
        "log-plus-one": np.log1p,
        "logistic": _logistic,
        "mulhi": _multiply_high,
        "multiply": np.multiply,
        "negate": np.negative,
        "power": _power,
        "real": np.real,
        "remainder": _remainder,
        "round-nearest-afz": _round_away_from_zero,
        "round-nearest-even": np.rint,
        "rsqrt": _rsqrt,
        "sign": _sign,
        "sine": np.sin,
        "sinh": np.sinh,
        "sqrt": np.sqrt,
        "subtract": _subtract,
        "tan": np.tan,
        "tanh": np.tanh,
    }.items()
}
