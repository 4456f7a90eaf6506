"""Numbers at which opcodes go wrong, by dtype; no subnormals, which XLA:CPU flushes and XLA:GPU does not."""

from typing import Any

import ml_dtypes
import numpy as np

WIDE_FLOATS = [np.dtype(name) for name in ("float32", "float64")]
NARROW = [np.dtype(t) for t in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn)]
FLOATS = WIDE_FLOATS + NARROW
SIGNED = [np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)]
UNSIGNED = [np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)]
INTEGERS = SIGNED + UNSIGNED
PRED = np.dtype(np.bool_)
COMPLEX = np.dtype(np.complex64)

_FLOATS = (0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 0.3, -0.7, 0.49999997, 10, -10, 60, np.inf, -np.inf, np.nan)


def build_edge_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns a vector of edge values."""
    if dtype == PRED:
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, 100]
        return np.array([*numbers, -1, -3] if dtype.kind == "i" else numbers, dtype)
    if dtype.kind == "c":
        parts = np.array([1, -1, 0.5, 2, -3], np.float32)
        return (parts[:, None] + 1j * parts).ravel().astype(dtype)
    limits = ml_dtypes.finfo(dtype)
    ends = [float(limits.max), float(limits.min), float(limits.tiny), -float(limits.tiny)]
    return np.array([*_FLOATS, *ends], np.float64).astype(dtype)


def build_pairs(dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns every pair of edge values, as two matrices."""
    values = build_edge_values(dtype)
    left, right = np.broadcast_arrays(values[:, None], values)
    return left.copy(), right.copy()


def get_rtol(dtype: np.dtype[Any]) -> float:
    """Returns the largest relative error of a function.

    Wide floats: eight units in the last place, since two implementations have two each and their operands are rounded
    too. Narrow floats: one, since both round slightly different f32 values. Exact dtypes: 0.
    """
    if dtype.kind in "biu":
        return 0.0
    if dtype.kind == "c":
        return 1e-5
    return (8 if dtype in WIDE_FLOATS else 1) * float(ml_dtypes.finfo(dtype).eps)
