"""Shapes with their leaves (XLA's ShapeIndex), and the buffers that an instruction's outputs share with its operands.

`output_to_operand_aliasing` comes from a file. An entry is valid if

- the operand exists, and both ShapeIndices name a part of its shape and of the result's;
- both parts have the same element type and dimensions, and are arrays (these two as in XLA's hlo_verifier.cc);
- no other entry names the same output or operand, although XLA takes all such entries for one buffer;
- both lie in the same bytes, in a module with a buffer assignment.

The kernel's write to a buffer of an invalid entry remains a hidden write.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from google.protobuf.unknown_fields import UnknownFieldSet

from ligerdiag.hlo.xla_pb2 import HloInstructionProto, OutputOperandAliasing, ShapeProto

TUPLE = 13
TOKEN = 17
HOST_SPACE = 5
"""XLA's number of the host's memory in a layout (`kHostMemorySpace`, xla/layout.h); other numbers are on the device."""

type ShapeIndex = tuple[int, ...]
"""Path into a nested tuple shape, such as (1, 0) for element 0 of element 1; () is the whole shape."""

_PRED = 1
_TILES = 6
"""Number of the field `tiles` of a LayoutProto."""
_ELEMENT_BITS = re.compile(r"^[a-z]+?(\d+)(?:e|$)", re.ASCII)

DTYPE_NAMES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 28: "f8e4m3", 29: "f8e3m4",
}  # fmt: skip
"""Maps the number of an xla::PrimitiveType to its name (xla/xla_data.proto)."""


def is_predicate(shape: ShapeProto) -> bool:
    """Returns whether the shape's elements are booleans."""
    return shape.element_type == _PRED


def is_tuple(shape: ShapeProto) -> bool:
    """Returns whether the shape is a tuple, which may be empty."""
    return shape.element_type == TUPLE


def iterate_leaves(shape: ShapeProto) -> Iterator[ShapeIndex]:
    """Yields the ShapeIndex of every leaf, in order. A leaf is an array, a token or an opaque value."""
    for index, _ in iterate_leaf_shapes(shape):
        yield index


def iterate_leaf_shapes(shape: ShapeProto, prefix: ShapeIndex = ()) -> Iterator[tuple[ShapeIndex, ShapeProto]]:
    """Yields the ShapeIndex and the shape of every leaf, in order.

    prefix: ShapeIndex of `shape` in a larger shape; it is put in front of each ShapeIndex.
    """
    if not is_tuple(shape):
        yield prefix, shape
        return
    for index, child in enumerate(shape.tuple_shapes):
        yield from iterate_leaf_shapes(child, (*prefix, index))


def is_tiled(shape: ShapeProto) -> bool:
    """Returns whether the layout of an array has tiles. Arrays on a TPU have tiles; those on a GPU or CPU have none.

    `xla.proto` leaves the tiles out, because only this function asks for them.
    """
    return any(one.field_number == _TILES for one in UnknownFieldSet(shape.layout))


def is_counted(shape: ShapeProto) -> bool:
    """Returns whether the shape is an array of integers or booleans; false for a tuple."""
    return DTYPE_NAMES.get(shape.element_type, "").strip("0123456789") in ("pred", "s", "u")


def count_elements(shape: ShapeProto) -> int:
    return prod(shape.dimensions)


def is_integer(shape: ShapeProto) -> bool:
    """Returns whether the shape is an array, or a scalar, of integers or booleans; false for a tuple."""
    return DTYPE_NAMES.get(shape.element_type, "").startswith(("s", "u", "pred"))


def compute_byte_size(shape: ShapeProto) -> int | None:
    """Returns the bytes of a dense array. Returns None for a tuple, a token, and packed or unknown elements."""
    match = _ELEMENT_BITS.search(DTYPE_NAMES.get(shape.element_type, ""))
    if is_predicate(shape):
        return count_elements(shape)
    bits = int(match[1]) if match else 0
    return None if bits < 8 else count_elements(shape) * bits // 8


def render_shape(shape: ShapeProto) -> str:
    """Returns short text such as `f32[4,8]` or `(f32[4], s32[])`."""
    if is_tuple(shape):
        return f"({', '.join(render_shape(child) for child in shape.tuple_shapes)})"
    name = DTYPE_NAMES.get(shape.element_type, "token" if shape.element_type == TOKEN else f"type{shape.element_type}")
    return f"{name}[{','.join(str(d) for d in shape.dimensions)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidAlias:
    """An entry of an instruction's `output_to_operand_aliasing` that is not a valid alias."""

    instruction: int
    """Id of the instruction with the entry."""
    operand: int
    """The operand number that the entry names; the instruction may have no operand of that number."""
    output: ShapeIndex
    reason: str
    """One clause that says why the entry is invalid."""
    part: ShapeIndex = ()
    """The part of the operand that the entry names."""
    is_shared: bool = False
    """Whether output and operand exist and match, but another entry names the same output or operand: XLA puts the
    outputs and operands of all these entries into one buffer.
    """


def take_invalid_aliases(proto: HloInstructionProto, operands: list[ShapeProto]) -> Iterator[InvalidAlias]:
    """Removes the invalid entries of `output_to_operand_aliasing` from the message, and yields them."""
    entries = list(proto.output_operand_aliasing)
    outputs = Counter(tuple(entry.output_shape_index) for entry in entries)
    sources = Counter((entry.operand_index, tuple(entry.operand_shape_index)) for entry in entries)
    for number in reversed(range(len(entries))):
        entry = entries[number]
        output = tuple(entry.output_shape_index)
        part = tuple(entry.operand_shape_index)
        reason, is_shared = _find_fault(entry, proto.shape, operands), False
        if not reason and (outputs[output] > 1 or sources[entry.operand_index, part] > 1):
            reason, is_shared = "another entry names the same buffer", True
        if reason:
            yield InvalidAlias(
                instruction=proto.id,
                operand=entry.operand_index,
                output=output,
                reason=reason,
                part=part,
                is_shared=is_shared,
            )
            del proto.output_operand_aliasing[number]


def render_index(index: Sequence[int]) -> str:
    """Returns a ShapeIndex as XLA writes it, such as `{0,1}`."""
    return f"{{{','.join(map(str, index))}}}"


def _find_fault(entry: OutputOperandAliasing, result: ShapeProto, operands: list[ShapeProto]) -> str:
    if not 0 <= entry.operand_index < len(operands):
        return f"the call has only {len(operands)} operands"
    output = _find_part(result, tuple(entry.output_shape_index))
    part = tuple(entry.operand_shape_index)
    operand = _find_part(operands[entry.operand_index], part)
    if output is None:
        return f"the result is `{render_shape(result)}`, which has no part {render_index(entry.output_shape_index)}"
    if operand is None:
        return f"the operand is `{render_shape(operands[entry.operand_index])}`, which has no part {render_index(part)}"
    if render_shape(output) != render_shape(operand):
        return f"the output is `{render_shape(output)}`, but the operand is `{render_shape(operand)}`"
    return ""


def _find_part(shape: ShapeProto, index: ShapeIndex) -> ShapeProto | None:
    for number in index:
        if not 0 <= number < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[number]
    return shape
