"""Reads sections of an ELF file, such as the machine code for a GPU in the payload of a call. Never reads past its bytes."""

import struct
from typing import cast

from ligerdiag.errors import ArtifactError

_MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of a 64-bit, little-endian ELF file."""
_HEADER = struct.Struct("<40xQ10xHHH")
"""Offset of the section headers; bytes of each, their number, and the number of the section with their names."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BYTES = 8
"""Type of a section that has a size but no bytes in the file."""
_MOST_SECTIONS = 10_000


def find_elf_sections(data: bytes, prefix: bytes) -> tuple[bytes, ...]:
    """Returns the contents of the sections whose name starts with `prefix`, in the order of the file.

    Raises ArtifactError if `data` is not a 64-bit, little-endian ELF file, or if a section lies outside of `data`.
    """
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        raise ArtifactError("the machine code is not an ELF file")
    start, size, count, names = cast(tuple[int, int, int, int], _HEADER.unpack_from(data))
    if size != _SECTION.size or not names < count <= _MOST_SECTIONS or start + size * count > len(data):
        raise ArtifactError("the ELF file of the machine code has no valid table of sections")
    headers = [_read_header(data, start + size * number) for number in range(count)]
    table = _cut(data, headers[names])
    found: list[bytes] = []
    for header in headers:
        if table.startswith(prefix, header[0]) and header[1] != _NO_BYTES:
            found.append(_cut(data, header))
    return tuple(found)


def _read_header(data: bytes, place: int) -> tuple[int, ...]:
    return _SECTION.unpack_from(data, place)


def _cut(data: bytes, header: tuple[int, ...]) -> bytes:
    offset, size = header[4], header[5]
    if offset + size > len(data):
        raise ArtifactError("a section of the machine code lies outside of its ELF file")
    return data[offset : offset + size]
