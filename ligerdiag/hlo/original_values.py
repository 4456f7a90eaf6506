"""Reads XLA's original values: for an array in a result, the array of the unoptimized module that it equals.

Passes of XLA carry an original value along when they replace a value by an equal one (xla/hlo/ir/hlo_original_value.h).
HLO text shows it as `origin={{"ld17"}}`, for a tuple as `origin={({"ld20"}, {}, {"ld3"})}`. Most modules have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf.message import DecodeError

from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.hlo.xla_pb2 import OriginalValueProto

_NOTHING: Mapping[ShapeIndex, "OriginalArray"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """One array of the unoptimized module: the name that the frontend gave the value, and a leaf of its shape."""

    name: str
    index: ShapeIndex = ()


def parse_original_value(data: bytes) -> Mapping[ShapeIndex, OriginalArray]:
    """Maps each leaf of a result to the original array that it equals; has no entry for a leaf without one.

    data: the field `original_value` of an instruction. A message in another form than today's, such as that of XLA before
    2026, gives an empty map.
    """
    if not data:
        return _NOTHING
    message = OriginalValueProto()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return _NOTHING
    return {
        tuple(one.shape_index): OriginalArray(
            one.original_array.instruction_name, tuple(one.original_array.shape_index)
        )
        for one in message.elements
        if one.original_array.instruction_name
    }
