"""Shapes as the analysis needs them: how many leaves, and where each stands (XLA's ShapeIndex)."""

import re
from collections.abc import Iterator
from math import prod

from ligerdiag.hlo.xla_pb2 import ShapeProto

TUPLE = 13
TOKEN = 17

type ShapeIndex = tuple[int, ...]
"""Path into a nested tuple shape; () is the whole shape."""

_PRED = 1
_ELEMENT_BITS = re.compile(r"^[a-z]+?(\d+)(?:e|$)", re.ASCII)

DTYPE_NAMES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 28: "f8e4m3", 29: "f8e3m4",
}  # fmt: skip
"""xla::PrimitiveType by number (xla/xla_data.proto)."""


def is_tuple(shape: ShapeProto) -> bool:
    """Whether the shape is a tuple (possibly empty)."""
    return shape.element_type == TUPLE


def iterate_leaves(shape: ShapeProto, prefix: ShapeIndex = ()) -> Iterator[ShapeIndex]:
    """The ShapeIndex of every array, token or opaque leaf, in order."""
    if not is_tuple(shape):
        yield prefix
        return
    for index, child in enumerate(shape.tuple_shapes):
        yield from iterate_leaves(child, (*prefix, index))


def iterate_leaf_shapes(shape: ShapeProto, prefix: ShapeIndex = ()) -> Iterator[tuple[ShapeIndex, ShapeProto]]:
    """As `iterate_leaves`, each with its shape."""
    if not is_tuple(shape):
        yield prefix, shape
        return
    for index, child in enumerate(shape.tuple_shapes):
        yield from iterate_leaf_shapes(child, (*prefix, index))


def count_elements(shape: ShapeProto) -> int:
    """Elements of an array shape."""
    return prod(shape.dimensions)


def compute_byte_size(shape: ShapeProto) -> int | None:
    """Bytes of a dense array; None for a tuple, a token, and types whose elements are packed or not known."""
    match = _ELEMENT_BITS.search(DTYPE_NAMES.get(shape.element_type, ""))
    if shape.element_type == _PRED:
        return count_elements(shape)
    bits = int(match[1]) if match else 0
    return None if bits < 8 else count_elements(shape) * bits // 8


def render_shape(shape: ShapeProto) -> str:
    """Short text such as `f32[4,8]` or `(f32[4], s32[])`."""
    if is_tuple(shape):
        return f"({', '.join(render_shape(child) for child in shape.tuple_shapes)})"
    name = DTYPE_NAMES.get(shape.element_type, "token" if shape.element_type == TOKEN else f"type{shape.element_type}")
    return f"{name}[{','.join(str(d) for d in shape.dimensions)}]"
