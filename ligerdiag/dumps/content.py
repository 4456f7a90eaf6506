"""Detects a file's format by its first bytes, unpacks it, and bounds memory and time by its size on disk.

One module may use memory and time in proportion to the size of its files, and no more (see `untrusted_files`). The
operating system refuses anything above that, which ends in a one-line error. A small file can unpack to gigabytes. Real
dumps shrink to about a tenth; a file that would unpack to more than `MAXIMUM_UNPACKED_RATIO` times its size is refused
before that.
"""

import re
import resource
import signal
import textwrap
import threading
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError

from ligerdiag.errors import ArtifactError
from ligerdiag.untrusted_files import (
    BASE_MEMORY_BYTES,
    BASE_SECONDS,
    MAXIMUM_FILE_BYTES,
    MAXIMUM_GZIP_MEMBERS,
    MAXIMUM_MODULES_IN_FILE,
    MAXIMUM_UNPACKED_RATIO,
    MEMORY_PER_BYTE,
    SECONDS_PER_BYTE,
    SMALL_UNPACKED_BYTES,
    count_stored_bytes,
    read_untrusted,
)

_STATM = Path("/proc/self/statm")


def compute_allowance(paths: Iterable[Path]) -> int:
    """Returns how many bytes of memory ligerdiag may use to read and analyse these files."""
    return BASE_MEMORY_BYTES + MEMORY_PER_BYTE * count_stored_bytes(paths)


def compute_seconds(paths: Iterable[Path]) -> float:
    """Returns how many seconds of processor time ligerdiag may use to read and analyse these files."""
    return BASE_SECONDS + SECONDS_PER_BYTE * count_stored_bytes(paths)


class BudgetError(ArtifactError):
    """Raised if a module needs more memory or time than its limits, which follow from the sizes of its files."""


class _TimeIsUp(BaseException):
    """Raised when the time is up; it is not an Exception, so that no handler on the way catches it."""


@contextmanager
def limit_time(seconds: float, name: str) -> Generator[None]:
    """Raises BudgetError if the block takes more than `seconds` of processor time. The message contains `name`.

    Has an effect only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except _TimeIsUp:
        raise BudgetError(f"`{name}` takes more than {seconds:.3g} s: a larger --timeout allows more") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def limit_memory(allowance: int, name: str) -> Generator[None]:
    """Raises BudgetError if the block needs more than `allowance` bytes of memory beyond the process's current size.
    The message contains `name`.

    Has no effect if the operating system does not report the current size.
    """
    try:
        used = int(_STATM.read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used + allowance, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except MemoryError:
        raise BudgetError(f"`{name}` takes more than {allowance >> 20} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


_GZIP = b"\x1f\x8b"
_FED = 1 << 14
"""Bytes given to a decompressor at once. It copies its remaining input once for each member of the file, so the number
is small.
"""
_BLOCK = 1 << 20
_PADDING = re.compile(rb"\x00*")
_HEAD_BYTES = 1 << 16
_OTHERS = {
    b"\xfd7zXZ\x00": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"PK\x03\x04": "a zip file",
    b"BZh": "a bzip2 file",
    b"PAR1": "a Parquet table, such as that of a sweep",
    b"\x7fELF": "a program",
    b"ML\xefR": "MLIR bytecode",
    b"\x00": "binary data that begin with a zero byte",
}
_COMMENTS = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|//[^\n]*\n)*")
_STABLEHLO = re.compile(rb"#loc|module(?:\s*@|\s*\{|\s+attributes\b)")


_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_MODULE_LINE = re.compile(rb"^[ \t>]*HloModule[ \t]", re.MULTILINE)
_QUOTED = re.compile(rb"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_HLO_LINE = re.compile(
    rb"^[ \t]*(?!//)(?:ENTRY[ \t]|(?:ROOT[ \t]+)?%?[\w.-]+[ \t]*=[ \t]|(?:\S.*)?\{[ \t\r]*$)", re.MULTILINE
)
_ENTRY = re.compile(rb"^[ \t]*ENTRY[ \t]", re.MULTILINE)
_FENCE = re.compile(rb"^[ \t>]*(`{3,}|~{3,})([^`\n]*)$", re.MULTILINE)
_QUOTED_FENCE = re.compile(rb"^[ \t]*>[ \t>]*(?:```|~~~)", re.MULTILINE)
_SHORT = 64
"""Printable data of more than this many bytes is text; shorter data may be a damaged protobuf instead."""
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


_TAR, _TAR_PLACE = b"ustar", 257
"""The word that marks a tar archive, and where in the file it is."""


class Form(StrEnum):
    """The format of a file's contents, as far as its first bytes show it."""

    TEXT = "HLO text"
    PROTO = "protobuf"
    BUFFERS = "buffer assignment"


def read_content(path: Path) -> bytes:
    """Returns the contents of a file. A gzip file is unpacked, and the additions of copy and paste are removed (see
    `strip_paste`). Raises ArtifactError if the file cannot be read, is too large, or is damaged.
    """
    data = read_untrusted(path, MAXIMUM_FILE_BYTES)
    try:
        return strip_paste(unpack(data))
    except ArtifactError as error:
        raise ArtifactError(f"`{path.name}`: {error}") from error


def unpack(data: bytes) -> bytes:
    """Returns the unpacked contents of a gzip file. Any other data are returned unchanged. Raises ArtifactError if the
    gzip file is damaged, or unpacks to more than the limit for its size.
    """
    if not data.startswith(_GZIP):
        return data
    limit = min(MAXIMUM_FILE_BYTES, max(SMALL_UNPACKED_BYTES, MAXIMUM_UNPACKED_RATIO * len(data)))
    view, blocks, total, position, members = memoryview(data), list[bytes](), 0, 0, 0
    while position < len(data):
        members += 1
        if members > MAXIMUM_GZIP_MEMBERS:
            raise ArtifactError(f"the file is a gzip file of more than {MAXIMUM_GZIP_MEMBERS} members")
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            fed: bytes | memoryview = member.unconsumed_tail
            if not fed:
                fed = view[position : position + _FED]
                position += len(fed)
            try:
                block = member.decompress(fed, _BLOCK)
            except zlib.error as error:
                raise ArtifactError(f"the file is a damaged gzip file ({error})") from error
            total += len(block)
            if total > limit:
                raise ArtifactError(f"the file unpacks to more than {limit >> 20} MiB from {len(data)} bytes")
            if not block and not member.eof and not fed:
                raise ArtifactError("the file is a gzip file that ends too early")
            if block:
                blocks.append(block)
        position -= len(member.unused_data)
        padding = _PADDING.match(data, position)
        position = padding.end() if padding else position
    unpacked = b"".join(blocks)
    if unpacked.startswith(_GZIP):
        raise ArtifactError("the file is a gzip file inside a gzip file: unpack it once")
    return unpacked


def strip_paste(data: bytes) -> bytes:
    """Returns HLO text without the additions of copy and paste. These are a byte order mark, a `>` before each line,
    and text before and after the module.

    If the data are Markdown, returns the HLO between the fences. Any other data is returned unchanged. Lines of HLO
    after the last closed computation are kept: they show that the text was cut off there. Without these lines, a
    computation that another computation calls would look like the entry.
    """
    bare = data.removeprefix(_UTF8_MARK)
    if data.startswith(_UTF16_MARKS):
        try:
            bare = data.decode("utf-16").encode()
        except UnicodeDecodeError:
            return data
    bare = take_fenced(bare)
    found = _MODULE_LINE.search(bare, 0, _HEAD_BYTES)
    if found is None:
        return _strip_end(bare) if _is_headless(bare) else data
    before = bare[: found.start()]
    if _UNPRINTABLE.search(before) or before.lstrip(b"> \t\r\n").startswith(b"BufferAssignment"):
        return data
    text = bare[found.start() :]
    return _strip_end(_QUOTED.sub(b"", text) if b">" in found[0] else text)


def take_fenced(data: bytes) -> bytes:
    """Returns the HLO between the fences (``` or ~~~) of Markdown as one text.

    A fence ends only at a line with at least as many of its characters, or else at the end of the data. Other fenced
    text, such as lowered StableHLO or a log, is dropped. If a module comes before all fences, its text ends at the
    first fence. Any other data is returned unchanged; so is text that has modules both inside and outside of fences.
    """
    if _UNPRINTABLE.search(data, 0, _HEAD_BYTES) or _FENCE.search(data, 0, _HEAD_BYTES) is None:
        return data
    text = _QUOTED.sub(b"", data) if _QUOTED_FENCE.search(data, 0, _HEAD_BYTES) else data
    inside, outside = _split_fences(text)
    modules = [some for some in inside if _MODULE_LINE.search(some) or _is_headless(some)]
    found = _MODULE_LINE.search(outside)
    if found is not None and not modules and (fence := _FENCE.search(text, text.find(found[0]))):
        return text[: fence.start()]
    if not modules or found is not None:
        return data
    return b"".join(
        textwrap.dedent(one.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape") for one in modules
    )


def _split_fences(text: bytes) -> tuple[list[bytes], bytes]:
    """Returns a list of the fenced texts, and the text outside of all fences."""
    inside: list[bytes] = []
    outside: list[bytes] = []
    opened, start = b"", 0
    for line in _FENCE.finditer(text):
        marks, info = line[1], line[2].strip()
        if not opened:
            outside.append(text[start : line.start()])
        elif marks.startswith(opened) and not info:
            inside.append(text[start : line.start()])
        else:
            continue
        opened, start = b"" if opened else marks, min(line.end() + 1, len(text))
    (inside if opened else outside).append(text[start:])
    return inside, b"".join(outside)


def _is_headless(data: bytes) -> bool:
    """Returns whether the bytes are HLO text without the line `HloModule`, which the parser does not require and
    compilers' tests omit.

    A protobuf is no such text: it is full of bytes that no text has.
    """
    start = _COMMENTS.match(data, 0, _HEAD_BYTES)
    is_other = start is not None and data.startswith((b"BufferAssignment", b"HloModule"), start.end())
    return not is_other and _UNPRINTABLE.search(data, 0, _HEAD_BYTES) is None and has_entry(data)


def _strip_end(text: bytes) -> bytes:
    end = max(text.rfind(b"\n}"), text.rfind(b"\n }"))
    rest = text[end + 1 :].partition(b"\n")[2] if end >= 0 else b""
    return text[: len(text) - len(rest)] if rest.strip() and not _HLO_LINE.search(rest) else text


def split_modules(data: bytes) -> tuple[bytes, ...]:
    """Splits HLO text with several modules into the text of each module. Such text occurs in compilers' tests. Any
    other data is returned unchanged, as the only member of the tuple.
    """
    starts: list[int] = []
    seen = quotes = 0
    for match in _MODULE_LINE.finditer(data) if _MODULE_LINE.match(data) else ():
        quotes += data.count(b'"', seen, match.start()) - data.count(b'\\"', seen, match.start())
        seen = match.start()
        if quotes % 2 == 0:  # otherwise the match is in a quoted part of a module's head
            starts.append(seen)
    if not 1 < len(starts) <= MAXIMUM_MODULES_IN_FILE:
        return (data,)
    return tuple([_strip_end(data[start:end]) for start, end in pairwise((*starts, len(data)))])


def has_entry(text: bytes) -> bool:
    """Returns whether HLO text marks its entry computation. Without a mark, XLA's parser takes the last computation as
    the entry.
    """
    return _ENTRY.search(text) is not None


def compute_form(data: bytes) -> Form:
    """Returns the format of the data. Data without distinctive first bytes count as a protobuf, because a protobuf has
    none. Raises ArtifactError if the data have a format that ligerdiag does not read.
    """
    for magic, what in _OTHERS.items():
        if data.startswith(magic):
            raise ArtifactError(f"the file is {what}: expected an HloProto or HLO text, plain or gzipped")
    if data[_TAR_PLACE : _TAR_PLACE + len(_TAR)] == _TAR:
        raise ArtifactError("the file is a tar archive: unpack it, and inspect the folder that was in it")
    if not data:
        raise ArtifactError("the file is empty")
    match = _COMMENTS.match(data, 0, _HEAD_BYTES)
    start = match.end() if match else 0
    rest = data[start : start + 64]
    if rest.startswith(b"HloModule"):
        return Form.TEXT
    if rest.startswith(b"BufferAssignment"):
        return Form.BUFFERS
    if _STABLEHLO.match(rest):
        raise ArtifactError(
            "the file is StableHLO: expected HLO, as `--xla_dump_to` writes it or `compiled.as_text()` returns it"
        )
    if _is_headless(data):
        return Form.TEXT
    if _UNPRINTABLE.search(data, 0, _HEAD_BYTES) is None and len(data) > _SHORT:
        raise ArtifactError(
            "the file is text in which no line begins with `HloModule` or `ENTRY`: expected an HloProto or HLO text"
        )
    return Form.PROTO


def is_whole(data: bytes) -> bool:
    """Returns whether HLO is complete. Detects a truncated file by a quick check. Returns false for bytes that are not
    HLO.

    A protobuf is parsed as the message type Empty, which has no fields, so only the outermost fields are checked.
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
