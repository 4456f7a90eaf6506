"""The arguments of one run of a dumped module, as XLA wrote them beside it.

| file | what |
|---|---|
| module_0003.jit_step.snapshot.-1044628018.pb, …execution_0000.hlo_snapshot.pb | HloSnapshot (--xla_dump_hlo_snapshots) |
| module_0003.jit_step.execution_0000.hlo_unoptimized_snapshot.pb | see below (--xla_dump_hlo_unoptimized_snapshots) |

The second is an HloUnoptimizedSnapshot. Newer versions of XLA write it after its length, without its literals; these follow
one by one (xla/runtime/large_hlo_snapshot_serialization): 8 bytes, little endian, with the length of a ShapeProto, that, and
the elements in the order of its layout; truth values are packed, eight to a byte, the first one lowest.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ligerdiag.dumps.content import unpack
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import count_elements, is_tuple, render_shape
from ligerdiag.hlo.xla_pb2 import HloInputs, HloSnapshot, HloUnoptimizedSnapshot, ShapeProto
from ligerdiag.replay.interpreter.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.interpreter.movement import order_elements, parse_literal
from ligerdiag.replay.interpreter.scope import Array
from ligerdiag.untrusted_files import MAXIMUM_FILE_BYTES, read_untrusted

_UNOPTIMIZED = "hlo_unoptimized_snapshot"
_VERSION = 0
_LENGTH_BYTES = 8
_VARINT_BYTES = 10
_MAXIMUM_SHAPE_BYTES = 4096


def load_snapshot(path: Path, program: HloModule) -> tuple[Array, ...]:
    """Returns an array for each parameter. Raises ArtifactError where the file cannot be read or does not fit."""
    shapes = [parameter.shape for parameter in program.entry.parameters]
    try:
        data = unpack(read_untrusted(path, MAXIMUM_FILE_BYTES))
        arrays = _parse_unoptimized(data, shapes) if _UNOPTIMIZED in path.name else _parse_snapshot(data, shapes)
    except ArtifactError as error:
        raise ArtifactError(f"the arguments in `{path.name}`: {error}") from error
    except DecodeError as error:
        raise ArtifactError(f"the arguments in `{path.name}`: not what XLA writes") from error
    return arrays


def _parse_snapshot(data: bytes, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    snapshot = HloSnapshot.FromString(data)
    return _parse_literals(snapshot, shapes)


def _parse_unoptimized(data: bytes, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    start, end = _find_metadata(data)
    if end > len(data):
        return _parse_literals(_get_partition(HloUnoptimizedSnapshot.FromString(data)), shapes)
    try:
        snapshot = HloUnoptimizedSnapshot.FromString(memoryview(data)[start:end].tobytes())
    except DecodeError:  # of an older version, which begins with no length
        return _parse_literals(_get_partition(HloUnoptimizedSnapshot.FromString(data)), shapes)
    inputs = _get_partition(snapshot)
    _require_count(len(inputs.arguments_descriptors), shapes)
    if snapshot.version > _VERSION or any(one.version > _VERSION for one in inputs.arguments_descriptors):
        raise ArtifactError("of a version of the format that is not known")
    sizes = [one.argument_size_bytes for one in inputs.arguments_descriptors]
    if sum(sizes) > len(data) - end:
        raise ArtifactError("is cut off")
    return tuple(_iterate_arrays(memoryview(data)[end:], sizes, shapes))


def _find_metadata(data: bytes) -> tuple[int, int]:
    """Returns where the message begins and ends whose length stands before it, by protobuf's variable-length integers."""
    length = 0
    for position, byte in enumerate(data[:_VARINT_BYTES]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return position + 1, position + 1 + length
    return 0, len(data) + 1


def _get_partition(snapshot: HloUnoptimizedSnapshot) -> HloInputs:
    if len(snapshot.partitions) != 1:
        raise ArtifactError(f"of {len(snapshot.partitions)} devices, where the program is for one")
    return snapshot.partitions[0]


def _parse_literals(inputs: HloInputs | HloSnapshot, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    _require_count(len(inputs.arguments), shapes)
    arrays: list[Array] = []
    for number, (literal, shape) in enumerate(zip(inputs.arguments, shapes, strict=True)):
        _require_shape(number, literal.shape, shape)
        arrays.append(np.ascontiguousarray(parse_literal(literal)))
    return tuple(arrays)


def _iterate_arrays(data: memoryview, sizes: list[int], shapes: list[ShapeProto]) -> Iterator[Array]:
    start = 0
    for number, (size, shape) in enumerate(zip(sizes, shapes, strict=True)):
        literal = data[start : start + size]
        start += size
        length = int.from_bytes(literal[:_LENGTH_BYTES], "little")
        if length > _MAXIMUM_SHAPE_BYTES:
            raise ArtifactError(f"argument {number} has no shape")
        own = ShapeProto.FromString(literal[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes())
        _require_shape(number, own, shape)
        yield _read_array(number, literal[_LENGTH_BYTES + length :], own)


def _read_array(number: int, data: memoryview, shape: ShapeProto) -> Array:
    dtype, elements = get_dtype(shape), count_elements(shape)
    is_packed = dtype == np.bool_
    expected = math.ceil(elements / 8) if is_packed else elements * dtype.itemsize
    if len(data) != expected:
        raise ArtifactError(f"argument {number}, {render_shape(shape)}, has {len(data)} bytes, not {expected}")
    raw: Any = np.frombuffer(data, np.uint8)
    flat = np.unpackbits(raw, count=elements, bitorder="little").view(np.bool_) if is_packed else raw.view(dtype)
    return np.ascontiguousarray(order_elements(flat, shape, get_dimensions(shape)))


def _require_count(count: int, shapes: list[ShapeProto]) -> None:
    if count != len(shapes):
        raise ArtifactError(f"{count} of them, where the program takes {len(shapes)}")


def _require_shape(number: int, own: ShapeProto, wanted: ShapeProto) -> None:
    """Raises ArtifactError where an argument is not the array that the program takes."""
    order = list(own.layout.minor_to_major)
    if order and sorted(order) != list(range(len(own.dimensions))):
        raise ArtifactError(f"argument {number} has a layout that is none")
    found, expected = ((one.element_type, get_dimensions(one), is_tuple(one)) for one in (own, wanted))
    if found != expected:
        raise ArtifactError(f"argument {number} is {render_shape(own)}, where the program takes {render_shape(wanted)}")
