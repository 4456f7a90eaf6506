"""Evaluates float operations: `arith` on f8 to f64, each result rounded once, to nearest even.

bf16, f16 and f8 compute in f32 and round; the product, sum and quotient of two of them come out as if rounded once.
`fma` is exact before its one rounding: it is computed in f64 and rounded to odd, which then rounds correctly to any
narrower type. maximumf and minimumf return NaN if one operand is NaN; maxnumf and minnumf return the other operand.
"""

import ctypes
import ctypes.util
from collections.abc import Callable
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_word
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.integers import Compute, Prepare, on_one, on_two
from ligerdiag.replay.triton_ir.values import DType, Value, is_narrow, parse_type, to_array


def widen(array: Array) -> Array:
    """Returns bf16, f16 and f8 numbers as f32, which is exact. Other arrays are returned unchanged."""
    if not is_narrow(array.dtype):
        return array
    if array.dtype.name == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32)


def narrow(array: Array, dtype: DType) -> Array:
    """Rounds f32 or f64 numbers to nearest even in `dtype`. Numbers out of range become the infinity or NaN of `dtype`."""
    if array.dtype == dtype:
        return array
    if array.dtype == np.float64 and is_narrow(dtype) and dtype != np.float16:
        array = round_to_odd(array)
    if dtype.name == "bfloat16":
        return _round_to_bfloat16(array, dtype)
    return array.astype(dtype)


def _round_to_bfloat16(array: Array, dtype: DType) -> Array:
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    rounded >>= np.uint32(16)
    result = rounded.astype(np.uint16)
    nan = np.isnan(array)
    if nan.any():
        result[nan] = (bits[nan] >> np.uint32(16)).astype(np.uint16) | np.uint16(0x40)
    return result.view(dtype)


def round_to_odd(array: Array) -> Array:
    """Converts f64 numbers to f32 so that a further rounding adds no error. Truncates the numbers, and sets the last
    bit of each number that changes.
    """
    near = array.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != array) & np.isfinite(back)
    even = (near.view(np.uint32) & np.uint32(1)) == 0
    moved = np.nextafter(near, np.where(array > back, np.float32(np.inf), np.float32(-np.inf)))
    result: Array = np.where(inexact & even, moved, near)
    return result


def _binary(function: Callable[[Array, Array], Array]) -> Prepare:
    def prepare(op: Operation, types: Function) -> Compute:
        dtype = parse_type(types.types[op.results[0]]).get_dtype()
        if not is_narrow(dtype):
            return on_two(lambda left, right: function(to_array(left), to_array(right)))
        return on_two(lambda left, right: narrow(function(widen(to_array(left)), widen(to_array(right))), dtype))

    return prepare


def unary(function: Callable[[Array], Array]) -> Prepare:
    """Makes a `Prepare` for an operation on one float with a result of the same dtype. A `Prepare` is a function that
    reads the attributes of an operation and returns the function that computes it.

    function: computes the operation on arrays; it gets bf16, f16 and f8 as f32.
    """

    def prepare(op: Operation, types: Function) -> Compute:
        dtype = parse_type(types.types[op.results[0]]).get_dtype()

        def compute(value: Value) -> Array:
            array = widen(to_array(value))
            return narrow(np.asarray(function(array)).astype(array.dtype, copy=False), dtype)

        return compute

    return prepare


def _negate(op: Operation, types: Function) -> Compute:
    dtype = parse_type(types.types[op.results[0]]).get_dtype()
    sign = np.array(1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}")
    return on_one(lambda value: (to_array(value).view(sign.dtype) ^ sign).view(dtype))


def clear_sign(op: Operation, types: Function) -> Compute:
    """Returns a function that computes the absolute value of floats, for the operation `math.absf`.

    types: the function of the kernel that contains the operation; it has the types of its values.
    """
    dtype = parse_type(types.types[op.results[0]]).get_dtype()
    rest = np.array((1 << (8 * dtype.itemsize - 1)) - 1, f"u{dtype.itemsize}")
    return on_one(lambda value: (to_array(value).view(rest.dtype) & rest).view(dtype))


_ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare(op: Operation, function: Function) -> Compute:
    predicate = parse_word(op.text, "arith.cmpf")

    kind, name = predicate[:1], predicate[1:]
    if predicate not in ("ord", "uno") and (kind not in ("o", "u") or name not in _ORDERED):
        raise NotCoveredError(f"arith.cmpf with the predicate {predicate}")
    del function

    def compare(left: Value, right: Value) -> Array:
        a, b = widen(to_array(left)), widen(to_array(right))
        if predicate in ("ord", "uno"):
            return _are_unordered(a, b) if predicate == "uno" else ~_are_unordered(a, b)
        found = _ORDERED[name](a, b)
        if kind == "o":
            return found & ~_are_unordered(a, b) if name == "ne" else found
        return found if name == "ne" else found | _are_unordered(a, b)

    return compare


def _are_unordered(left: Array, right: Array) -> Array:
    return np.isnan(left) | np.isnan(right)


def _prepare_fma(op: Operation, types: Function) -> Compute:
    dtype = parse_type(types.types[op.results[0]]).get_dtype()

    def compute(x: Value, y: Value, z: Value) -> Array:
        return fma(to_array(x), to_array(y), to_array(z), dtype)

    return compute


def fma(x: Array, y: Array, z: Array, dtype: DType) -> Array:
    """Returns x * y + z, rounded once to `dtype`."""
    if dtype == np.float64:
        return _fma_by_libm(x, y, z)
    product = x.astype(np.float64) * y.astype(np.float64)  # exact: 2 * 24 bits
    addend = z.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    inexact = (error != 0) & np.isfinite(total)
    moved = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    odd: Array = np.where(inexact & even, moved, total)
    if dtype == np.float32:
        return odd.astype(np.float32)
    return narrow(odd, dtype)


def _fma_by_libm(x: Array, y: Array, z: Array) -> Array:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    function = library.fma
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    vectorized: Any = np.vectorize(function, otypes=[np.float64])
    return vectorized(x, y, z)


def _clamp(op: Operation, types: Function) -> Compute:
    dtype = parse_type(types.types[op.results[0]]).get_dtype()
    propagates = "propagateNan = all" in op.text

    def compute(value: Value, low: Value, high: Value) -> Array:
        x, a, b = widen(to_array(value)), widen(to_array(low)), widen(to_array(high))
        if propagates:
            return narrow(np.minimum(np.maximum(x, a), b), dtype)
        return narrow(np.fmin(np.fmax(x, a), b), dtype)

    return compute


FLOATS: dict[str, Prepare] = {
    "arith.addf": _binary(np.add),
    "arith.subf": _binary(np.subtract),
    "arith.mulf": _binary(np.multiply),
    "arith.divf": _binary(np.divide),
    "tt.precise_divf": _binary(np.divide),
    "arith.remf": _binary(np.fmod),
    "arith.maximumf": _binary(np.maximum),
    "arith.minimumf": _binary(np.minimum),
    "arith.maxnumf": _binary(np.fmax),
    "arith.minnumf": _binary(np.fmin),
    "arith.negf": _negate,
    "math.absf": clear_sign,
    "math.copysign": _binary(np.copysign),
    "arith.cmpf": _compare,
    "math.fma": _prepare_fma,
    "tt.clampf": _clamp,
    "math.sqrt": unary(np.sqrt),
    "tt.precise_sqrt": unary(np.sqrt),
}
