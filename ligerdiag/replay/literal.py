"""Constants: from XLA's LiteralProto to an array."""

import math
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.shape import DTYPE_NAMES, is_tuple
from ligerdiag.hlo.xla_pb2 import LiteralProto
from ligerdiag.replay.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.opcodes.scope import Array, NotCoveredError, Value

_BYTES = frozenset({"u8", "s8", "u16", "s16", "f16", "bf16"})
_FIELD = {"pred": "preds"}


def parse_literal(literal: LiteralProto) -> Value:
    """Returns the value in logical (row-major) shape. Raises ArtifactError where the data does not fill the shape."""
    if is_tuple(literal.shape):
        return tuple([parse_literal(child) for child in literal.tuple_literals])
    name = DTYPE_NAMES.get(literal.shape.element_type, "")
    dtype, dimensions = get_dtype(literal.shape), get_dimensions(literal.shape)
    data: Any = getattr(literal, _FIELD.get(name, f"{name}s"), None)
    if data is None:
        raise NotCoveredError(f"constant of element type {name}")
    flat: Array
    if name in _BYTES or name.startswith("f8"):
        flat = np.frombuffer(data, dtype)
    elif name in ("c64", "c128"):
        flat = np.array(data, np.float32 if name == "c64" else np.float64).view(dtype)
    else:
        flat = np.array(data, dtype)
    if flat.size != math.prod(dimensions):
        raise ArtifactError(f"a constant of {math.prod(dimensions)} elements holds {flat.size}")
    return _order(flat, literal, dimensions)


def _order(flat: Array, literal: LiteralProto, dimensions: tuple[int, ...]) -> Array:
    """Literal data is stored in the order of the literal's own layout."""
    major_to_minor = list(reversed(literal.shape.layout.minor_to_major))
    if len(major_to_minor) != len(dimensions):
        return flat.reshape(dimensions)
    stored = flat.reshape([dimensions[d] for d in major_to_minor])
    return stored.transpose(np.argsort(major_to_minor)) if dimensions else stored.reshape(())
