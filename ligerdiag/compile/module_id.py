"""Worker side: takes out of a module what only says how many modules the process had before."""

from collections.abc import Iterator

_MODULE, _ID = 1, 5
"""Numbers of HloProto.hlo_module and HloModuleProto.id."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def drop_module_id(proto: bytes) -> bytes:
    """Returns the serialized HloProto without the module's id; all other bytes stay. ValueError where it is none."""
    parts: list[bytes] = []
    for number, start, content, end in _iterate_fields(proto):
        if number == _MODULE:
            module = proto[content:end]
            kept = b"".join(module[first:last] for field, first, _, last in _iterate_fields(module) if field != _ID)
            parts += [proto[start : start + 1], _render_varint(len(kept)), kept]
        else:
            parts.append(proto[start:end])
    return b"".join(parts)


def _iterate_fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(number, start of the field, start of its content, end) of each field."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        kind, content = key & 7, at
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _BYTES:
            size, content = _read_varint(message, at)
            at = content + size
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            raise ValueError(f"no protobuf: wire type {kind}")
        if at > len(message):
            raise ValueError("the protobuf is truncated")
        yield key >> 3, start, content, at


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("the protobuf is truncated")


def _render_varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
