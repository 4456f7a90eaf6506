"""Opens files that are not trusted, and limits the memory and time that reading them may cost. A comment at each limit gives
its reason.

Only regular files up to a size are opened. Reading a FIFO, a socket or a device could wait forever or have an effect, so
they are refused before they are opened. The size of a file includes its holes, and a file that grows after it was opened is
read only up to its size at that time. Time is processor time, so that a busy machine does not matter. The memory and time
that a file may cost grow with the bytes that it takes on disk, without holes (`count_stored_bytes`), because holes cost the
author of the file nothing. If a module exceeds a bound, it gets a one-line error, and the other modules are inspected.
"""

import os
import stat
from collections.abc import Iterable
from io import FileIO
from itertools import pairwise
from pathlib import Path

from ligerdiag.errors import ArtifactError

MAXIMUM_FILE_BYTES = 2 << 30
"""Largest size of a file with a module, packed or unpacked: protobuf's own limit for one message."""
MAXIMUM_JSON_BYTES = 64 << 20
"""Largest size of one record of an artifact; the largest one seen has a few MiB."""
MAXIMUM_TEXT_BYTES = 1 << 30
"""Largest size of HLO text that is given to jaxlib's parser."""

MAXIMUM_UNPACKED_RATIO = 200
"""Largest ratio of the unpacked to the packed size of a gzip file; real dumps shrink to a tenth or so."""
SMALL_UNPACKED_BYTES = 16 << 20
"""Bytes that every gzip file may unpack to, whatever its ratio."""
MAXIMUM_GZIP_MEMBERS = 1 << 16
"""Most members of a gzip file. bgzip makes more than other tools, one for each 64 KiB, so this allows it 4 GiB. Each
member costs a decompressor, even an empty one of 20 bytes.
"""
MAXIMUM_MODULES_IN_FILE = 1000
"""Largest number of modules in one text file that are inspected one by one."""
MAXIMUM_MODULES_IN_TEXTS = 5000
"""The text files of a run that hold several modules each are split into at most this many modules, all files together;
after that, each further text file is inspected as one module.
"""
MAXIMUM_COUNTED_BYTES = 4 << 30
"""The modules in text files are counted only until the files that were read have this many bytes on disk; a file with
several names counts once.
"""
MAXIMUM_UNCOUNTED = 8
"""If counting the modules of this many files has exceeded its limits of time or memory, no further files are counted."""

MAXIMUM_FOLDER_FILES = 500_000
"""Largest number of files below one path; the dump of a large job with all its passes has a tenth of that."""
MAXIMUM_FOLDER_DEPTH = 12
MAXIMUM_ARTIFACT_FILES = 20_000
"""Largest number of files that an artifact's manifest may name; the snapshots of all passes of a large module are some
hundreds.
"""

BASE_MEMORY_BYTES = 3 << 29
"""Bytes of memory (1.5 GiB) that every module may use, whatever its size."""
MEMORY_PER_BYTE = 100
"""Bytes of memory for each byte of a module's files: once parsed, a protobuf of messages of a few bytes takes fifty
times its size, and an analysis takes more.
"""
BASE_SECONDS = 4.0
"""Seconds of processor time that every module may use, whatever its size."""
SECONDS_PER_BYTE = 1 / (1 << 20)
"""Seconds of processor time for each byte of a module's files; a module of 45 MiB with 310,000 instructions took 29 s
on a slow machine.
"""

TEXT_BASE_MEMORY_BYTES = 2 << 30
"""Bytes of memory that the process which parses HLO text may use in addition to TEXT_MEMORY_PER_BYTE for each byte of
text. jaxlib's libraries take most of them.
"""
TEXT_MEMORY_PER_BYTE = 40
TEXT_BASE_SECONDS = 20.0
TEXT_SECONDS_PER_BYTE = 1 / (1 << 20)
"""Seconds of processor time for parsing each byte of HLO text: ten times what jaxlib's parser took."""

MAXIMUM_STABLEHLO_BYTES = 512 << 20
"""Largest size of a file with StableHLO; only one with weights as constants has more than some MiB."""
STABLEHLO_BASE_MEMORY_BYTES = 12 << 30
"""Bytes of data that a worker may use to compile StableHLO, in addition to STABLEHLO_MEMORY_PER_BYTE for each byte of
the module. Large programs take half of them.
"""
STABLEHLO_MEMORY_PER_BYTE = 40

SANDBOX_FILE_BYTES = 4 << 30
"""Largest size of a file that a sandboxed process writes: a text for the parser, a kernel's effects, its answer."""
SANDBOX_OPEN_FILES = 1024
"""Largest number of files that a sandboxed process may have open; it opens a few for each core to analyse kernels."""
SANDBOX_ANSWER_BYTES = 1 << 30
"""Largest size of the report on one module; nearly all of it is the HLO text of an HTML page."""
SANDBOX_SPARE_SECONDS = 5.0
"""A process is killed if it takes this many seconds of processor time more than its limit. A process that runs C++ code
may be unable to end itself at the limit.
"""
WALL_SECONDS = 120.0
"""Seconds of wall time that a sandboxed process may take, asleep or not, in addition to `WALL_FACTOR` times its
processor time. Waiting for a kernel's effects counts.
"""
WALL_FACTOR = 30.0


_MAXIMUM_EXTENTS = 4096
"""Most stretches of data between holes that are counted in one file; everything after them counts as data."""


def open_untrusted(path: Path, maximum: int, *, follow: bool = True) -> FileIO:
    """Returns the file, open for reading. Raises ArtifactError unless it is a regular file of at most `maximum` bytes.

    follow: whether the path itself may be a symbolic link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        _require_regular(path, path.stat(follow_symlinks=follow))
        file = FileIO(os.open(path, flags))
    except OSError as error:
        raise ArtifactError(f"cannot read `{path}`: {error.strerror or error}") from error
    try:
        status = os.fstat(file.fileno())
        _require_regular(path, status)
        if status.st_size > maximum:
            raise ArtifactError(f"`{path.name}` has {status.st_size} bytes, more than the {maximum} that are allowed")
    except BaseException:
        file.close()
        raise
    return file


def read_untrusted(path: Path, maximum: int, *, follow: bool = True) -> bytes:
    """Returns the bytes of the file. Raises ArtifactError as `open_untrusted` does."""
    with open_untrusted(path, maximum, follow=follow) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size)
            while len(data) < size and (more := file.read(size - len(data))):
                data += more
        except OSError as error:
            raise ArtifactError(f"cannot read `{path}`: {error.strerror or error}") from error
    return data


def is_flatbuffer(data: bytes) -> bool:
    """Returns whether the bytes may be a flatbuffer, as `jax.export` writes it.

    A flatbuffer begins with the offset of a table, and the table with the distance to the description of its fields. No
    HLO or MLIR file begins like that.
    """
    if len(data) < _FLATBUFFER_HEAD:
        return False
    table = int.from_bytes(data[:4], "little")
    if table % 4 or not 4 <= table <= len(data) - 4:
        return False
    fields = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    return 4 <= fields <= len(data) - 4 and int.from_bytes(data[fields : fields + 2], "little") in range(4, 1 << 10, 2)


_FLATBUFFER_HEAD = 12
"""Bytes of the smallest flatbuffer."""


def count_stored_bytes(paths: Iterable[Path]) -> int:
    """Returns the bytes that the files take on disk, without the holes of sparse files.

    A file that cannot be opened counts 0.
    """
    return sum(map(_count_stored, paths))


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactError(f"`{path}` is not a file")


def _count_stored(path: Path) -> int:
    try:
        with open_untrusted(path, 1 << 62) as file:
            return _count_data(file.fileno(), os.fstat(file.fileno()).st_size)
    except ArtifactError:
        return 0


def _count_data(file: int, size: int) -> int:
    """Returns the bytes of a file that lie outside of holes; on a file system without holes, all bytes."""
    ends = [0]
    try:
        while ends[-1] < size and len(ends) < 2 * _MAXIMUM_EXTENTS:
            start = os.lseek(file, ends[-1], os.SEEK_DATA)
            ends += (start, os.lseek(file, start, os.SEEK_HOLE))
    except OSError:  # after the last data; or holes are not supported
        return size if ends == [0] and os.fstat(file).st_blocks else _sum_data(ends)
    return _sum_data(ends) + size - ends[-1]


def _sum_data(ends: list[int]) -> int:
    return sum(end - start for start, end in list(pairwise(ends))[1::2])
