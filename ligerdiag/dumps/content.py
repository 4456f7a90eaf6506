"""What a file holds, by its first bytes, and its bytes: unpacked, and never more than the file is worth.

A small file can unpack to gigabytes. Real dumps shrink to a tenth or so; what would unpack to more than `MAXIMUM_RATIO`
times its size is refused before it is there.
"""

import re
import zlib
from enum import StrEnum
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError

from ligerdiag.errors import ArtifactError

MAXIMUM_BYTES = 2 << 30
"""Of a file, and of what it unpacks to: protobuf's own limit for one message."""
MAXIMUM_RATIO = 200
SMALL_BYTES = 16 << 20
"""What any file may unpack to."""

_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20
_HEAD_BYTES = 1 << 16
_OTHERS = {
    b"\xfd7zXZ\x00": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"PK\x03\x04": "a zip file",
    b"BZh": "a bzip2 file",
    b"\x7fELF": "a program",
    b"ML\xefR": "MLIR bytecode",
}
_COMMENTS = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|//[^\n]*\n)*")
_STABLEHLO = re.compile(rb"#loc|module(?:\s*@|\s*\{|\s+attributes\b)")


_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_MODULE_LINE = re.compile(rb"^[ \t>]*HloModule[ \t]", re.MULTILINE)
_QUOTED = re.compile(rb"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


class Form(StrEnum):
    """What bytes are, as far as their beginning says."""

    TEXT = "HLO text"
    PROTO = "protobuf"
    BUFFERS = "buffer assignment"


def read_content(path: Path) -> bytes:
    """The file's bytes, unpacked when it is a gzip file, without what a paste adds to HLO text.

    Raises ArtifactError when it cannot be read, is too large, or is damaged.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ArtifactError(f"`{path}` is not a file")
        if size > MAXIMUM_BYTES:
            raise ArtifactError(f"`{path.name}` has {size} bytes, more than {MAXIMUM_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read `{path}`: {error.strerror or error}") from error
    try:
        return strip_paste(unpack(data))
    except ArtifactError as error:
        raise ArtifactError(f"`{path.name}`: {error}") from error


def unpack(data: bytes) -> bytes:
    """The bytes, or what they unpack to when they are gzip. Raises ArtifactError when that is damaged or too much."""
    if not data.startswith(_GZIP):
        return data
    limit = min(MAXIMUM_BYTES, max(SMALL_BYTES, MAXIMUM_RATIO * len(data)))
    blocks: list[bytes] = []
    total, rest = 0, data
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            try:
                block = member.decompress(rest, _BLOCK)
            except zlib.error as error:
                raise ArtifactError(f"is a damaged gzip file ({error})") from error
            rest = member.unconsumed_tail or member.unused_data
            total += len(block)
            if total > limit:
                raise ArtifactError(f"unpacks to more than {limit >> 20} MiB from {len(data)} bytes")
            if not block and not member.eof and not rest:
                raise ArtifactError("is a gzip file that ends too early")
            blocks.append(block)
        rest = member.unused_data.lstrip(b"\x00")
    unpacked = b"".join(blocks)
    if unpacked.startswith(_GZIP):
        raise ArtifactError("is a gzip file in a gzip file")
    return unpacked


def strip_paste(data: bytes) -> bytes:
    """HLO text without a byte order mark, quotation marks before each line, and what stands before and after the module.

    Any other data stays as it is.
    """
    bare = data.removeprefix(_UTF8_MARK)
    if data.startswith(_UTF16_MARKS):
        try:
            bare = data.decode("utf-16").encode()
        except UnicodeDecodeError:
            return data
    found = _MODULE_LINE.search(bare, 0, _HEAD_BYTES)
    before = b"" if found is None else bare[: found.start()]
    if found is None or _UNPRINTABLE.search(before) or before.lstrip(b"> \t\r\n").startswith(b"BufferAssignment"):
        return data
    text = bare[found.start() :]
    if b">" in found[0]:
        text = _QUOTED.sub(b"", text)
    end = max(text.rfind(b"\n}"), text.rfind(b"\n }"))
    rest = text[end + 1 :].partition(b"\n")[2] if end >= 0 else b""
    return text[: len(text) - len(rest)] if rest.strip() else text


def compute_form(data: bytes) -> Form:
    """What the bytes are. Raises ArtifactError when they are known to be something else; a protobuf has no mark."""
    for magic, what in _OTHERS.items():
        if data.startswith(magic):
            raise ArtifactError(f"is {what}: expected an HloProto or HLO text, as they are or as gzip")
    if not data:
        raise ArtifactError("is empty")
    start = _COMMENTS.match(data, 0, _HEAD_BYTES)
    rest = data[start.end() if start else 0 :][:64]
    if rest.startswith(b"HloModule"):
        return Form.TEXT
    if rest.startswith(b"BufferAssignment"):
        return Form.BUFFERS
    if _STABLEHLO.match(rest):
        raise ArtifactError(
            "is StableHLO: expected HLO, as `--xla_dump_to` writes it or `compiled.as_text()` returns it"
        )
    return Form.PROTO


def is_whole(data: bytes) -> bool:
    """Whether HLO goes on to its end, by a quick look that tells what was cut off; false for what is no HLO.

    Empty knows no fields, so that of a protobuf only the outermost ones are looked at.
    """
    match compute_form(data):
        case Form.TEXT:
            return data.rstrip().endswith(b"}")
        case Form.BUFFERS:
            return False
        case Form.PROTO:
            try:
                Empty.FromString(data)
            except DecodeError:
                return False
            return True
