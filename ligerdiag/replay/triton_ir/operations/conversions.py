"""Converts values between element types.

A float becomes an integer by truncation; a value out of range becomes the nearest end of the range and NaN becomes 0,
as on a GPU (in LLVM, a poison value). A float becomes a narrower one by rounding to nearest even, or towards zero if
`rounding = rtz`. `tt.fp_to_fp` to f8 saturates, as a GPU does. A true i1 becomes the float 1 if unsigned, -1 if signed.
"""

from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.floats import narrow, round_to_odd, widen
from ligerdiag.replay.triton_ir.operations.integers import Compute, Prepare, on_one, view_signed, view_unsigned
from ligerdiag.replay.triton_ir.values import DType, Sum, Value, is_float, is_narrow, parse_type, to_array


def _get_dtype(op: Operation, function: Function) -> DType:
    return parse_type(function.types[op.results[0]]).get_dtype()


def _extend_signed(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)

    def compute(value: Value) -> Value:
        if isinstance(value, Sum):
            return Sum(value.terms, dtype, value.low, value.high)
        return view_signed(to_array(value)).astype(dtype, copy=False)

    return compute


def _extend_unsigned(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)

    def compute(value: Value) -> Value:
        if isinstance(value, Sum) and value.low >= 0:
            return Sum(value.terms, dtype, value.low, value.high)
        return view_unsigned(to_array(value)).astype(f"u{dtype.itemsize}").view(dtype)

    return compute


def _cut(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)

    def compute(value: Value) -> Value:
        if dtype == np.bool_:
            return (to_array(value) & 1).astype(np.bool_)
        limits = np.iinfo(dtype)
        if isinstance(value, Sum) and limits.min <= value.low and value.high <= limits.max:
            return Sum(value.terms, dtype, value.low, value.high)
        return to_array(value).astype(dtype)

    return compute


def _cast_index(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)
    return on_one(lambda value: to_array(value).astype(dtype))


def _cast_index_unsigned(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)
    return on_one(lambda value: view_unsigned(to_array(value)).astype(f"u{dtype.itemsize}").view(dtype))


def to_integer(array: Array, dtype: DType, *, signed: bool) -> Array:
    """Converts floats to integers by truncation. A number out of range becomes the nearest end of the range, and NaN
    becomes 0.
    """
    target = dtype if signed or dtype == np.bool_ else np.dtype(f"u{dtype.itemsize}")
    if target == np.bool_:
        return np.trunc(array) != 0
    limits = np.iinfo(target)
    wide = widen(array).astype(np.float64)
    above, below = wide >= float(limits.max), wide <= float(limits.min)
    inside = np.where(above | below | np.isnan(wide), 0.0, wide)
    result = np.where(above, limits.max, inside.astype(target))
    return np.where(below, limits.min, result).astype(target).view(dtype)


def _float_to_integer(signed: bool) -> Prepare:
    def prepare(op: Operation, function: Function) -> Compute:
        dtype = _get_dtype(op, function)
        return on_one(lambda value: to_integer(to_array(value), dtype, signed=signed))

    return prepare


def _integer_to_float(signed: bool) -> Prepare:
    def prepare(op: Operation, function: Function) -> Compute:
        dtype = _get_dtype(op, function)

        def compute(value: Value) -> Array:
            array = (view_signed if signed else view_unsigned)(to_array(value))
            return from_integer(array, dtype)

        return compute

    return prepare


def from_integer(array: Array, dtype: DType) -> Array:
    """Converts integers to floats of this dtype, with one rounding."""
    if not is_narrow(dtype):
        return array.astype(dtype)
    if array.dtype.itemsize < 8:
        return narrow(array.astype(np.float64), dtype)
    return narrow(_round_wide_to_odd(array), dtype)


def _round_wide_to_odd(array: Array) -> Array:
    """Returns 64-bit integers as f32, truncated, with the last bit set if that is inexact, so that a second rounding
    adds no error.
    """
    floats = array.astype(np.float64)
    low = array & array.dtype.type(0x7FF)
    top = (array - low).astype(np.float64)  # exact: at most 53 bits
    inexact = (low != 0) & (np.abs(floats) >= 2.0**53)
    sticky: Array = np.where(inexact, np.nextafter(top, np.inf), floats)
    return round_to_odd(sticky)


def _extend_float(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)

    def compute(value: Value) -> Array:
        return convert_float(to_array(value), dtype)

    return compute


def convert_float(array: Array, dtype: DType) -> Array:
    """Converts floats to another floating-point dtype. Rounds to nearest even and does not saturate."""
    if array.dtype == dtype:
        return array
    wide = widen(array)
    return narrow(wide, dtype) if is_narrow(dtype) else wide.astype(dtype, copy=False)


def _convert(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)
    towards_zero = "rounding = rtz" in op.text
    if "rounding = " in op.text and not towards_zero and "rounding = rtne" not in op.text:
        raise NotCoveredError("tt.fp_to_fp with an unknown rounding")

    def compute(value: Value) -> Array:
        array = to_array(value)
        if dtype.itemsize >= array.dtype.itemsize and not (dtype.itemsize == 1 and array.dtype != dtype):
            return convert_float(array, dtype)
        wide = widen(array)
        if towards_zero:
            return _cut_float(wide, dtype)
        if dtype.itemsize == 1:
            wide = _saturate(wide, dtype)
        return narrow(wide, dtype)

    return compute


def _saturate(array: Array, dtype: DType) -> Array:
    library: Any = ml_dtypes
    limit = float(library.finfo(dtype).max)
    return np.clip(array, -limit, limit)


def _cut_float(array: Array, dtype: DType) -> Array:
    """Returns floats as floats of a narrower dtype, rounded towards zero."""
    if dtype.itemsize == 1:
        array = _saturate(array, dtype)
    near = narrow(array, dtype)
    back = widen(near).astype(np.float64)
    too_far = np.isfinite(array) & (np.abs(back) > np.abs(array.astype(np.float64)))
    bits = near.view(f"u{dtype.itemsize}")
    return np.where(too_far, bits - bits.dtype.type(1), bits).astype(bits.dtype).view(dtype)


def _bitcast(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)

    def compute(value: Value) -> Value:
        if isinstance(value, Sum) and value.dtype == dtype:
            return value
        array = to_array(value)
        if array.dtype == dtype:
            return array
        if np.bool_ in (array.dtype, dtype):
            return array.astype(dtype) if dtype == np.bool_ else view_signed(array).view(dtype)
        if array.dtype.itemsize != dtype.itemsize:
            raise NotCoveredError(f"a bitcast of {array.dtype} to {dtype}")
        return array.view(dtype)

    return compute


def _cut_to_float(op: Operation, function: Function) -> Compute:
    dtype = _get_dtype(op, function)
    if not is_float(dtype):
        raise NotCoveredError(f"arith.truncf to {dtype}")
    return on_one(lambda value: convert_float(to_array(value), dtype))


CONVERSIONS: dict[str, Prepare] = {
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _cut,
    "arith.index_cast": _cast_index,
    "arith.index_castui": _cast_index_unsigned,
    "arith.fptosi": _float_to_integer(True),
    "arith.fptoui": _float_to_integer(False),
    "arith.sitofp": _integer_to_float(True),
    "arith.uitofp": _integer_to_float(False),
    "arith.extf": _extend_float,
    "arith.truncf": _cut_to_float,
    "tt.fp_to_fp": _convert,
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
    "tt.ptr_to_int": _bitcast,
    "tt.int_to_ptr": _bitcast,
}
