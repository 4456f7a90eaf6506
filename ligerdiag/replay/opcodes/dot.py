"""`dot`: products of arrays over any batch and contracting dimensions.

(1) Floats narrower than f32 are widened to f32; the product accumulates in f32, in f64 where an operand or the result
    is f64, and is rounded once, to the result's dtype. Integers are exact, modulo the result's width.
(2) `precision_config` is ignored: it allows a device to accumulate less exactly, it never asks for it.
(3) Both operands are brought into one form, [batch, m, k] x [batch, k, n] in row-major order, so that BLAS takes one path
    and equal products get equal bits however they were written.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.dtypes import NARROW_FLOATS, DType, get_dtype
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value

LARGE = 8 << 20
"""Bytes above which transposed matrices stay transposed: BLAS packs both kinds into the same panels."""
EXACT_IN_F64 = 2**53


def compute_product_dtype(lhs: DType, rhs: DType, result: DType) -> DType:
    """Returns the dtype of the computation of a product: f32, f64, c64 or c128, or the result's dtype if there is no
    float."""
    dtypes = [np.dtype(np.float32) if d in NARROW_FLOATS else d for d in (lhs, rhs, result)]
    if all(d.kind in "biu" for d in dtypes):
        return result
    wide = any(d in (np.dtype(np.float64), np.dtype(np.complex128)) for d in dtypes)
    if any(d.kind == "c" for d in dtypes):
        return np.dtype(np.complex128 if wide else np.complex64)
    return np.dtype(np.float64 if wide else np.float32)


def compute_product(lhs: Array, rhs: Array, numbers: Any, result: DType) -> Array:
    """[batch.., lhs kept.., rhs kept..], not yet rounded to the result's dtype.

    numbers: a DotDimensionNumbers, or what has its four fields as sequences of int.
    """
    lhs_batch, rhs_batch = list(numbers.lhs_batch_dimensions), list(numbers.rhs_batch_dimensions)
    lhs_contracted, rhs_contracted = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    lhs_kept = [d for d in range(lhs.ndim) if d not in (*lhs_batch, *lhs_contracted)]
    rhs_kept = [d for d in range(rhs.ndim) if d not in (*rhs_batch, *rhs_contracted)]
    left = _group(lhs, (lhs_batch, lhs_kept, lhs_contracted))
    right = _group(rhs, (rhs_batch, rhs_contracted, rhs_kept))
    shape = (
        *(lhs.shape[d] for d in lhs_batch),
        *(lhs.shape[d] for d in lhs_kept),
        *(rhs.shape[d] for d in rhs_kept),
    )
    dtype = compute_product_dtype(lhs.dtype, rhs.dtype, result)
    multiply = _multiply_integers if dtype.kind in "biu" else _multiply_floats
    return multiply(left, right, dtype).reshape(shape)


def _group(array: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Three dimensions: one per group of dimensions."""
    transposed = array.transpose([d for group in groups for d in group])
    return transposed.reshape([math.prod(array.shape[d] for d in group) for group in groups])


def _multiply_floats(left: Array, right: Array, dtype: DType) -> Array:
    return np.matmul(_lay_out(left, dtype), _lay_out(right, dtype))


def _lay_out(array: Array, dtype: DType) -> Array:
    """Row-major matrices; large ones may be transposed, which BLAS takes as they are."""
    if array.size * dtype.itemsize > LARGE and array.strides[1] < array.strides[2]:
        return np.ascontiguousarray(array.swapaxes(1, 2), dtype).swapaxes(1, 2)
    return np.ascontiguousarray(array, dtype)


def _multiply_integers(left: Array, right: Array, dtype: DType) -> Array:
    """Exact modulo the width of `dtype`; for predicates `or` of `and`."""
    bound = left.shape[2] * _bound(left) * _bound(right)
    if bound < EXACT_IN_F64:  # every partial sum is an integer that f64 holds: BLAS is exact
        product: Array = np.matmul(left.astype(np.float64), right.astype(np.float64))
        return product.astype(np.int64).astype(dtype)
    wide = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return np.matmul(left.astype(wide), right.astype(wide)).astype(dtype)


def _bound(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0


def evaluate_dot(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns the product, in the instruction's dtype."""
    dtype = get_dtype(instruction.shape)
    lhs, rhs = np.asarray(operands[0]), np.asarray(operands[1])
    with np.errstate(all="ignore"):
        return compute_product(lhs, rhs, instruction.proto.dot_dimension_numbers, dtype).astype(dtype, copy=False)


DOT: Mapping[str, Evaluate] = {"dot": evaluate_dot}
