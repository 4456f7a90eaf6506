"""Computes matrix products: `dot`, `__cublas$gemm` and `__cublas$lt$matmul`.

Floats narrower than f32 are widened to f32; a product accumulates in f32, or in f64 if an operand or the result is f64, and
is rounded once, to the result's dtype. Integers are exact, modulo the result's width. `precision_config` is ignored: it
allows a device to accumulate less exactly and never demands it. Both operands are brought into the shapes [batch, m, k] x
[batch, k, n], in row-major order. BLAS then takes one path, and equal products get equal bits however the program writes
them.

A cuBLAS call computes D = activation(alpha * lhs x rhs + beta * C + bias) in f32 (f64 if an operand is f64) and rounds
once. Its operands are lhs, rhs, C if beta is not 0, and the bias if the epilogue adds one. Its results are D, the
activation's input if the epilogue says AUX, and a workspace, whose contents nobody may read: zeros here.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.ops.dtypes import NARROW_FLOATS, DType, get_dimensions, get_dtype, reduce_precision
from ligerdiag.replay.ops.scope import Array, Evaluate, Multiply, NotCoveredError, Scope, Value

LARGE, LARGE_BESIDE_A_VECTOR = 64 << 10, 8 << 20
"""If an operand takes more bytes than this and its matrices are stored transposed, BLAS gets them transposed, and they
are not copied into row-major order. The second bound is for a product with a vector.

Copying larger matrices takes longer than multiplying them by a few rows. BLAS packs transposed and row-major matrices
into the same panels, except for a product with a vector.
"""
EXACT_IN_F64 = 2**53


def compute_product_dtype(lhs: DType, rhs: DType, result: DType) -> DType:
    """Returns the dtype in which a product is computed: f32, f64, c64 or c128. If both operands are integers, it is the
    dtype of the result.
    """
    dtypes = [np.dtype(np.float32) if d in NARROW_FLOATS else d for d in (lhs, rhs, result)]
    if all(d.kind in "biu" for d in dtypes):
        return result
    wide = any(d in (np.dtype(np.float64), np.dtype(np.complex128)) for d in dtypes)
    if any(d.kind == "c" for d in dtypes):
        return np.dtype(np.complex128 if wide else np.complex64)
    return np.dtype(np.float64 if wide else np.float32)


def compute_product(lhs: Array, rhs: Array, numbers: Any, result: DType, multiply: Multiply) -> Array:
    """Returns the product of two arrays, not yet rounded to the result's dtype.

    The dimensions of the product are the batch dimensions, then the other dimensions of lhs and of rhs that are not
    contracted. numbers: a DotDimensionNumbers, or an object with the same four fields as sequences of int. result: the
    result's dtype. multiply: computes the product if its operands are floats.
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
    if dtype.kind in "biu":
        return _multiply_integers(left, right, dtype).reshape(shape)
    return multiply(left, right, dtype).reshape(shape)


def _group(array: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Returns the array with each group of dimensions merged into one dimension."""
    transposed = array.transpose([d for group in groups for d in group])
    return transposed.reshape([math.prod(array.shape[d] for d in group) for group in groups])


def choose_transposed(left: Array, right: Array, dtype: DType) -> tuple[bool, bool]:
    """Returns, for each of two operands, whether to pass its matrices to BLAS transposed. A large operand that is
    stored transposed is passed so.
    """
    limit = LARGE_BESIDE_A_VECTOR if 1 in (left.shape[1], right.shape[2]) else LARGE
    first, second = (one.size * dtype.itemsize > limit and one.strides[1] < one.strides[2] for one in (left, right))
    return first, second


def _lay_out(array: Array, dtype: DType, *, transposed: bool) -> Array:
    """Returns the matrices in this dtype, stored in row-major order, or with their transposes in row-major order."""
    return (
        _make_contiguous(array.swapaxes(1, 2), dtype).swapaxes(1, 2) if transposed else _make_contiguous(array, dtype)
    )


def _make_contiguous(array: Array, dtype: DType) -> Array:
    """Returns the array in this dtype, in row-major order. Rows of a large matrix may lie apart: BLAS copies them into
    the same panels.
    """
    rows_lie_apart = (
        array.dtype == dtype
        and array.size * dtype.itemsize > LARGE
        and min(array.shape[1:]) > 1
        and array.strides[2] == array.itemsize
        and array.strides[1] >= array.shape[2] * array.itemsize
        and array.strides[0] >= 0
    )
    return array if rows_lie_apart else np.ascontiguousarray(array, dtype)


def _multiply_integers(left: Array, right: Array, dtype: DType) -> Array:
    """Returns the product of integers, exact modulo the width of `dtype`; for predicates, `or` of `and`."""
    bound = left.shape[2] * _bound(left) * _bound(right)
    if bound < EXACT_IN_F64:  # f64 represents every partial sum, so BLAS is exact
        product: Array = np.matmul(left.astype(np.float64), right.astype(np.float64))
        return product.astype(np.int64).astype(dtype)
    wide = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return np.matmul(left.astype(wide), right.astype(wide)).astype(dtype)


def _bound(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0


def evaluate_dot(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates `dot`: returns the product of both operands, in the instruction's dtype."""
    dtype = get_dtype(instruction.shape)
    lhs, rhs = np.asarray(operands[0]), np.asarray(operands[1])
    with np.errstate(all="ignore"):
        product = compute_product(lhs, rhs, instruction.proto.dot_dimension_numbers, dtype, scope.multiply)
        return product.astype(dtype, copy=False)


DOT: Mapping[str, Evaluate] = {"dot": evaluate_dot}


def multiply(left: Array, right: Array, dtype: DType) -> Array:
    """Returns the product of two stacks of matrices, computed in this dtype by NumPy's BLAS."""
    transposed = choose_transposed(left, right, dtype)
    product: Array = np.matmul(
        _lay_out(left, dtype, transposed=transposed[0]), _lay_out(right, dtype, transposed=transposed[1])
    )
    return product


def multiply_in_tf32(left: Array, right: Array, dtype: DType) -> Array:
    """Multiplies two stacks of matrices as `multiply` does, but rounds f32 operands to TF32 first. Tensor cores round
    f32 operands in this way unless the program asks for more precision.
    """
    if dtype == np.float32:
        left, right = (
            reduce_precision(np.ascontiguousarray(one), 23, 8, 10) if one.dtype == np.float32 else one
            for one in (left, right)
        )
    return multiply(left, right, dtype)


def _gelu(x: Array) -> Array:
    """Returns cuBLASLt's GELU: the approximation by tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


_ACTIVATIONS: Mapping[str, Callable[[Array], Array] | None] = {
    "DEFAULT": None,
    "RELU": _relu,
    "GELU": _gelu,
    "SILU": _silu,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotNumbers:
    lhs_batch_dimensions: tuple[int, ...]
    rhs_batch_dimensions: tuple[int, ...]
    lhs_contracting_dimensions: tuple[int, ...]
    rhs_contracting_dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epilogue:
    """The steps that cuBLAS does after a product."""

    adds_bias: bool
    activation: Callable[[Array], Array] | None
    has_auxiliary: bool


def parse_epilogue(name: str) -> _Epilogue:
    """Parses XLA's name of an epilogue, such as `BIAS_GELU_AUX`. Raises NotCoveredError if the name is unknown."""
    adds_bias = name == "BIAS" or name.startswith("BIAS_")
    rest = name.removeprefix("BIAS").removeprefix("_") or "DEFAULT"
    has_auxiliary = rest == "GELU_AUX"
    activation = rest.removesuffix("_AUX") if has_auxiliary else rest
    if activation not in _ACTIVATIONS:
        raise NotCoveredError(f"matmul with the epilogue {name}")
    return _Epilogue(adds_bias=adds_bias, activation=_ACTIVATIONS[activation], has_auxiliary=has_auxiliary)


def _read_config(instruction: HloInstruction) -> Mapping[str, Any]:
    try:
        config = json.loads(instruction.proto.backend_config)["gemm_backend_config"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"`{instruction.name}` is a matmul without a readable `gemm_backend_config`") from error
    for name in ("grad_x", "grad_y", "damax_output", "scale_mode"):
        if config.get(name):
            raise NotCoveredError(f"matmul with {name}")
    return config


def evaluate_gemm(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates a custom call of a cuBLAS product with its epilogue. Returns D, the result of the product and the
    epilogue. If the call's shape is a tuple, returns (D, the activation's input if the epilogue keeps it, a workspace
    of zeros).
    """
    config = _read_config(instruction)
    epilogue = parse_epilogue(str(config.get("epilogue", "DEFAULT")))
    shapes = list(instruction.shape.tuple_shapes) if is_tuple(instruction.shape) else [instruction.shape]
    arrays = [np.asarray(operand) for operand in operands]
    beta, dtype = float(config.get("beta", 0)), get_dtype(shapes[0])
    if len(arrays) != 2 + bool(beta) + epilogue.adds_bias:
        raise NotCoveredError(f"matmul with {len(arrays)} operands")
    written = config.get("dot_dimension_numbers", {})
    names = _DotNumbers.__slots__
    numbers = _DotNumbers(**{name: tuple([int(d) for d in written.get(name, ())]) for name in names})
    with np.errstate(all="ignore"):
        wide = compute_product_dtype(arrays[0].dtype, arrays[1].dtype, dtype)
        total = compute_product(arrays[0], arrays[1], numbers, dtype, scope.multiply)
        alpha = complex(float(config.get("alpha_real", 1)), float(config.get("alpha_imag", 0)))
        if alpha != 1:
            total = total * np.asarray(alpha if wide.kind == "c" else alpha.real).astype(wide)
        if beta:
            total = total + np.asarray(beta).astype(wide) * arrays[2].astype(wide)
        if epilogue.adds_bias:
            total = total + arrays[-1].astype(wide)  # along the last dimensions
        if total.shape != get_dimensions(shapes[0]):
            raise ArtifactError(
                f"`{instruction.name}` computes an array of shape {total.shape}, but declares "
                f"{get_dimensions(shapes[0])}"
            )
        results = [total.astype(dtype, copy=False)]
        if epilogue.activation is not None:
            results = [epilogue.activation(total).astype(dtype)]
        if epilogue.has_auxiliary:
            results.append(total.astype(get_dtype(shapes[1])))
    results += [np.zeros(get_dimensions(shape), get_dtype(shape)) for shape in shapes[len(results) :]]
    return tuple(results) if is_tuple(instruction.shape) else results[0]
