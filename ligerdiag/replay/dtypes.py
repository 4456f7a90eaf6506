"""NumPy's dtype for each of XLA's element types."""

from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.hlo.shape import DTYPE_NAMES
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.opcodes.scope import NotCoveredError

type DType = np.dtype[Any]

_DTYPES: dict[str, DType] = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3b11fnuz": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "f8e3m4": np.dtype(ml_dtypes.float8_e3m4),
}

NARROW_FLOATS = frozenset(dtype for name, dtype in _DTYPES.items() if name in ("bf16", "f16") or name.startswith("f8"))
"""Floating point dtypes that are computed with in f32 and rounded."""


def get_dtype(shape: ShapeProto) -> DType:
    """Returns the dtype of an array shape. Raises NotCoveredError for one that NumPy cannot hold byte by byte, such as
    `s4`."""
    name = DTYPE_NAMES.get(shape.element_type, f"type {shape.element_type}")
    if name not in _DTYPES:
        raise NotCoveredError(f"element type {name}")
    return _DTYPES[name]


def get_dimensions(shape: ShapeProto) -> tuple[int, ...]:
    """Returns the dimensions of an array shape."""
    return tuple(shape.dimensions)
