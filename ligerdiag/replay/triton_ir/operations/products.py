"""`tt.dot`: products of blocks.

1. The factors are exact in f32 (bf16, f16, f8) and so are their products; sums are f32, in the order of NumPy's
   matrix product, as is the sum with the accumulator; the result is rounded to the accumulator's dtype at the end.
2. f32 factors with `inputPrecision = tf32` lose the 13 low bits of their mantissas, which tensor cores do not look
   at; with `tf32x3` and `ieee` they keep them.
3. Products of i8 are exact, and sums wrap.
"""

import re
from typing import Any

import numpy as np

from ligerdiag.effects.ttir.module import Function, Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
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
    """Returns left @ right + accumulator, of [programs, ..., rows, inner] and [programs, ..., inner, columns]."""
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
    """Returns f32 with its mantissa cut to 10 bits."""
    bits = array.view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _matmul(left: Array, right: Array) -> Array:
    if left.shape[0] == 1 and right.shape[0] == 1:
        return np.matmul(left, right)
    if right.shape[0] == 1 and left.ndim == 3:  # one product for all programs
        rows = left.shape[0] * left.shape[1]
        return np.matmul(left.reshape(rows, left.shape[2]), right[0]).reshape(left.shape[0], left.shape[1], -1)
    return np.matmul(left, right)


PRODUCTS: dict[str, Prepare] = {"tt.dot": _prepare}
