"""Writes a shared object (an ELF file for Linux on x86-64) that exports functions which do nothing.

A plugin that is linked against the libraries of a vendor loads only if libraries with these names export these symbols.
Such libraries are written here byte by byte, so that no C compiler is needed, and so that the same declaration gives
the same bytes everywhere. The dynamic linker reads only the parts that are written: the program headers, the dynamic
section, and the tables of symbols, strings, hashes and versions. There are no section headers.

The layout is that of the System V ABI; versions of symbols are laid out as the Linux Standard Base describes them. The
first page holds everything that is only read or executed. The dynamic section has a page of its own, because the dynamic
linker writes addresses into it.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

PAGE = 0x1000
_HEADER, _PROGRAM_HEADER, _SYMBOL = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IBBHQQ"),
)
_ENTRY, _VERSION, _VERSION_NAME = struct.Struct("<QQ"), struct.Struct("<HHHHIII"), struct.Struct("<II")

_SHARED_OBJECT, _X86_64, _LOAD, _DYNAMIC, _STACK = 3, 62, 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6
_GLOBAL_FUNCTION = 0x12
_BASE_VERSION = 1
"""Index of the version that is the library itself, which symbols without a version have; also its flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StubLibrary:
    """A library whose functions do nothing but return a constant."""

    soname: str
    """The name by which programs ask for the library, such as `libamdhip64.so.7`."""
    symbols: Mapping[str, Sequence[str]]
    """Maps each version of symbols, such as `hip_4.2`, to the names of the functions with this version. The key is empty for
    functions without a version.
    """
    returns: int
    """The number that every function of the library returns: one of the library's error codes, at least 0 and below 2**31.
    """
    texts: frozenset[str] = frozenset()
    """Names of the functions that return `TEXT` instead of the number `returns`."""

    TEXT: ClassVar[bytes] = b"no GPU: this library only has the names of functions\0"
    """The text that the functions in `texts` return."""


def render_shared_object(library: StubLibrary) -> bytes:
    """Returns the bytes of the library's file."""
    functions = [(name, version) for version, names in library.symbols.items() for name in names]
    versions = [version for version in library.symbols if version]
    strings = _Strings()
    soname = strings.add(library.soname)
    names = [strings.add(name) for name, _ in functions]
    definitions = _render_versions([library.soname, *versions], strings) if versions else b""

    place = _HEADER.size + 4 * _PROGRAM_HEADER.size
    parts: list[bytes] = []

    def put(part: bytes) -> int:
        """Adds a part of the file at the next multiple of 16, and returns its address."""
        nonlocal place
        padding = -place % 16
        parts.extend((bytes(padding), part))
        place += padding + len(part)
        return place - len(part)

    text = put(library.TEXT)
    code = {is_text: put(_render_code(library, text, place + -place % 16, is_text)) for is_text in (False, True)}
    indices = {version: number for number, version in enumerate(("", *versions), start=_BASE_VERSION)}
    symbols = b"".join(
        _SYMBOL.pack(offset, _GLOBAL_FUNCTION, 0, 1, code[name in library.texts], 0)
        for offset, (name, _) in zip(names, functions, strict=True)
    )
    entries = {
        14: soname,  # DT_SONAME
        4: put(_render_hashes([name for name, _ in functions])),  # DT_HASH
        5: put(strings.content),  # DT_STRTAB
        6: put(bytes(_SYMBOL.size) + symbols),  # DT_SYMTAB
        10: len(strings.content),  # DT_STRSZ
        11: _SYMBOL.size,  # DT_SYMENT
    }
    if versions:
        of_symbols = (0, *(indices[version] for _, version in functions))
        entries[0x6FFFFFF0] = put(struct.pack(f"<{len(of_symbols)}H", *of_symbols))  # DT_VERSYM
        entries[0x6FFFFFFC] = put(definitions)  # DT_VERDEF
        entries[0x6FFFFFFD] = 1 + len(versions)  # DT_VERDEFNUM
    dynamic = b"".join(_ENTRY.pack(*entry) for entry in (*entries.items(), (0, 0)))
    end, start = place, place + -place % PAGE
    headers = _render_headers(end, start, len(dynamic))
    return headers + b"".join(parts) + bytes(start - end) + dynamic


class _Strings:
    """The table of strings that the other tables refer to by offset."""

    def __init__(self) -> None:
        self.content = b"\0"

    def add(self, text: str) -> int:
        """Adds a string to the table of strings, and returns its offset there."""
        offset = len(self.content)
        self.content += text.encode() + b"\0"
        return offset


def _render_headers(read_only: int, dynamic: int, size: int) -> bytes:
    """Returns the ELF header and the four program headers.

    read_only: number of bytes of the part that is only read. dynamic, size: address and bytes of the dynamic section.
    """
    identification = b"\x7fELF" + bytes((2, 1, 1))  # 64 bits, little-endian, version 1
    header = _HEADER.pack(
        identification,
        _SHARED_OBJECT,
        _X86_64,
        1,
        0,
        _HEADER.size,
        0,
        0,
        _HEADER.size,
        _PROGRAM_HEADER.size,
        4,
        0,
        0,
        0,
    )
    programs = (
        (_LOAD, _READ_EXECUTE, 0, 0, 0, read_only, read_only, PAGE),
        (_LOAD, _READ_WRITE, dynamic, dynamic, dynamic, size, size, PAGE),
        (_DYNAMIC, _READ_WRITE, dynamic, dynamic, dynamic, size, size, 8),
        (_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),  # without it, the linker would ask for an executable stack
    )
    return header + b"".join(_PROGRAM_HEADER.pack(*program) for program in programs)


def _render_code(library: StubLibrary, text: int, place: int, is_text: bool) -> bytes:
    """Returns the machine code of a function at the address `place` that returns the text at the address `text`, or the
    library's number.
    """
    if is_text:
        return b"\x48\x8d\x05" + struct.pack("<i", text - place - 7) + b"\xc3"  # lea rax, [rip + ...]; ret
    return b"\xb8" + struct.pack("<i", library.returns) + b"\xc3"  # mov eax, ...; ret


def _render_versions(versions: Sequence[str], strings: _Strings) -> bytes:
    """Returns the definitions of the versions, the first of which is the name of the library itself."""
    size = _VERSION.size + _VERSION_NAME.size
    return b"".join(
        _VERSION.pack(
            1,
            _BASE_VERSION if number == _BASE_VERSION else 0,
            number,
            1,
            compute_hash(version),
            _VERSION.size,
            size if number < len(versions) else 0,
        )
        + _VERSION_NAME.pack(strings.add(version), 0)
        for number, version in enumerate(versions, start=_BASE_VERSION)
    )


def _render_hashes(names: Sequence[str]) -> bytes:
    """Returns the hash table of the symbols with these names; the symbol with number 0 has none."""
    buckets, chains = [0] * max(len(names), 1), [0] * (1 + len(names))
    for number, name in enumerate(names, start=1):
        bucket = compute_hash(name) % len(buckets)
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + len(buckets) + len(chains)}I", len(buckets), len(chains), *buckets, *chains)


def compute_hash(name: str) -> int:
    """Returns the hash by which the dynamic linker finds a symbol or a version, as the System V ABI defines it."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
