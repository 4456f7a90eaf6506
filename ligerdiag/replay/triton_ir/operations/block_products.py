"""Computes products of blocks: `tt.dot` and `tt.dot_scaled`.

bf16, f16 and f8 factors and their products are exact in f32. Sums are f32, in the order of NumPy's matrix product,
including the sum with the accumulator; the result is rounded to the accumulator's dtype at the end. f32 factors with
`inputPrecision = tf32` lose the 13 low bits of their mantissas, which tensor cores ignore; with `tf32x3` and `ieee`
they keep them. Products of i8 are exact, and their sums wrap.

A factor of `tt.dot_scaled` is an element times the scale of its group, exact in f32; a scale is a power of two (`e8m0`:
2**(bits - 127), NaN for 255) or an f8. The scales of the right factor are [columns, groups]. A byte has two elements of
f4, the first one in its low bits. (Triton, `tl.dot_scaled`; OCP Microscaling Formats 1.0, 5.3 and 5.4.)
"""

import re
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.floats import narrow, widen
from ligerdiag.replay.triton_ir.operations.integers import Compute, Prepare
from ligerdiag.replay.triton_ir.operations.shaping import fill_to
from ligerdiag.replay.triton_ir.values import DType, Value, is_float, parse_type, to_array

_PRECISION = re.compile(r"inputPrecision = (\w+)")
_PRECISIONS = frozenset({"tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"})


def _prepare(op: Operation, function: Function) -> Compute:
    shapes = [parse_type(function.types[operand]).shape for operand in op.operands]
    dtype = parse_type(function.types[op.results[0]]).get_dtype()
    match = _PRECISION.search(op.text)
    precision = match[1] if match else "ieee"
    if precision not in _PRECISIONS or precision.startswith("bf16"):
        raise NotCoveredError(f"tt.dot with inputPrecision = {precision}")

    def compute(left: Value, right: Value, accumulator: Value) -> Array:
        a, b = (fill_to(to_array(value), shape) for value, shape in zip((left, right), shapes, strict=False))
        return multiply(a, b, to_array(accumulator), dtype, cuts=precision == "tf32")

    return compute


def multiply(left: Array, right: Array, accumulator: Array, dtype: DType, *, cuts: bool) -> Array:
    """Returns left @ right + accumulator, rounded to `dtype`.

    left: [programs, ..., rows, inner]. right: [programs, ..., inner, columns]. cuts: whether f32 factors are first cut
    to the precision of tf32.
    """
    if not is_float(dtype):
        product = _matmul(left.astype(np.float64), right.astype(np.float64))  # exact: below 2**53
        return product.astype(np.int64).astype(dtype) + accumulator
    kind: Any = np.float64 if dtype == np.float64 else np.float32
    a, b = widen(left).astype(kind, copy=False), widen(right).astype(kind, copy=False)
    if cuts and kind is np.float32 and left.dtype == np.float32:
        a, b = cut_to_tf32(a), cut_to_tf32(b)
    total = _matmul(a, b)
    return narrow(total + widen(accumulator).astype(kind, copy=False), dtype)


def cut_to_tf32(array: Array) -> Array:
    """Cuts the mantissas of f32 numbers to 10 bits, the precision of tf32."""
    bits = array.view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _matmul(left: Array, right: Array) -> Array:
    if left.shape[0] == 1 and right.shape[0] == 1:
        return np.matmul(left, right)
    if right.shape[0] == 1 and left.ndim == 3:  # one product for all programs
        rows = left.shape[0] * left.shape[1]
        return np.matmul(left.reshape(rows, left.shape[2]), right[0]).reshape(left.shape[0], left.shape[1], -1)
    return np.matmul(left, right)


_SCALED = re.compile(
    r"tt\.dot_scaled %[^\s,]+(?P<left> scale %[^\s,]+)?, %[^\s,]+(?P<right> scale %[^\s,]+)?, %[^\s,]+"
    r" lhs = (?P<lhs>\w+) rhs = (?P<rhs>\w+)"
)
_F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_F4_BY_BITS = np.concatenate([_F4, -_F4])
"""The value of an `e2m1`, indexed by its four bits: a sign, two bits of exponent, one bit of mantissa."""
_STORED = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}
_NAN_SCALE, _SCALE_BIAS = 255, 127


def _prepare_scaled(op: Operation, function: Function) -> Compute:
    match = _SCALED.search(op.text)
    if match is None or not {match["lhs"], match["rhs"]} <= {*_STORED, "e2m1"}:
        raise NotCoveredError("tt.dot_scaled in an unknown notation or with unknown element types")
    shapes = [parse_type(function.types[operand]).shape for operand in op.operands]
    dtype = parse_type(function.types[op.results[0]]).get_dtype()
    has_left, has_right = match["left"] is not None, match["right"] is not None
    packed = {side: f"{side}_k_pack = false" not in op.text for side in ("lhs", "rhs")}

    def compute(left: Value, right: Value, accumulator: Value, *scales: Value) -> Array:
        a, b, *spread_scales = (
            fill_to(to_array(value), shape)
            for value, shape in zip((left, right, *scales), (*shapes[:2], *shapes[3:]), strict=True)
        )
        a = _unpack(a, match["lhs"], -1 if packed["lhs"] else -2)
        b = _unpack(b, match["rhs"], -2 if packed["rhs"] else -1)
        if has_left:
            a = a * _spread(spread_scales[0], a.shape[-1])
        if has_right:
            b = b * _spread(spread_scales[-1], b.shape[-2]).swapaxes(-1, -2)
        return multiply(a, b, to_array(accumulator), dtype, cuts=False)

    return compute


def _unpack(array: Array, kind: str, axis: int) -> Array:
    """Returns the elements of a stored factor as f32. kind: their format. axis: the axis along which a byte has two
    elements of f4.
    """
    if kind != "e2m1":
        return widen(array.view(_STORED[kind]))
    bits = array.view(np.uint8)
    both = np.stack([_F4_BY_BITS[bits & np.uint8(15)], _F4_BY_BITS[bits >> np.uint8(4)]], axis if axis == -1 else -2)
    shape = list(bits.shape)
    shape[axis] *= 2
    return both.reshape(shape)


def _spread(scales: Array, inner: int) -> Array:
    """Returns scales, [..., rows, groups], repeated for each element of their group: f32[..., rows, inner]."""
    if is_float(scales.dtype):
        numbers = widen(scales)
    else:
        bits = scales.view(np.uint8).astype(np.int32)
        numbers = np.where(bits == _NAN_SCALE, np.float32(np.nan), np.ldexp(np.float32(1), bits - _SCALE_BIAS))
    return np.repeat(numbers, inner // scales.shape[-1], axis=-1)


PRODUCTS: dict[str, Prepare] = {"tt.dot": _prepare, "tt.dot_scaled": _prepare_scaled}
