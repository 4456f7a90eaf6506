"""The one way to open a file of a stranger: regular files alone, never waiting, never above a bound; and all bounds,
each with its reason.

Every bound on what a file of a stranger may cost, by name and with its reason.

1. Time is a processor's time: how busy the machine is does not count.
2. Memory and time grow with the bytes that a file takes on disk: holes of a sparse file cost its maker nothing.
3. What takes more than a bound ends in one line, and costs that module alone.

The only way to open an untrusted file: regular files only, without waiting, up to a size bound.

1. A FIFO, a socket or a device is refused before it is opened: reading it could wait forever or have an effect.
2. A file counts by its size, holes included, and no more is read than it had when it was opened.
3. `count_stored_bytes` leaves the holes out: what a file may cost grows with what it takes on disk.
"""

import os
import stat
from collections.abc import Iterable
from io import FileIO
from itertools import pairwise
from pathlib import Path

from ligerdiag.errors import ArtifactError

MAXIMUM_FILE_BYTES = 2 << 30
"""Of a file with a module, and of what it unpacks to: protobuf's own limit for one message."""
MAXIMUM_JSON_BYTES = 64 << 20
"""Of one record of an artifact; the largest that was seen has a few MiB."""
MAXIMUM_TEXT_BYTES = 1 << 30
"""Of HLO text that is given to jaxlib's parser."""

MAXIMUM_UNPACKED_RATIO = 200
"""Bytes that a gzip file may unpack to, for each of its own: real dumps shrink to a tenth or so."""
SMALL_UNPACKED_BYTES = 16 << 20
"""The most that any gzip file may unpack to."""
MAXIMUM_GZIP_MEMBERS = 1 << 16
"""bgzip, which makes the most, makes one of each 64 KiB: 4 GiB. An empty one has 20 bytes and costs a decompressor."""
MAXIMUM_MODULES_IN_FILE = 1000
"""Modules of one text that are inspected one by one."""
MAXIMUM_MODULES_IN_TEXTS = 5000
"""Of all texts that hold several, together; each of the further ones counts as one module."""
MAXIMUM_COUNTED_BYTES = 4 << 30
"""On disk, of the files in which modules are counted, together; each inode counts once."""
MAXIMUM_UNCOUNTED = 8
"""Files that took more than their budget when their modules were counted; no more are tried then."""

MAXIMUM_FOLDER_FILES = 500_000
"""Below one path. A large job's dump with all its passes has a tenth."""
MAXIMUM_FOLDER_DEPTH = 12
MAXIMUM_ARTIFACT_FILES = 20_000
"""That a manifest may name; the snapshots of all passes of a large module are some hundreds."""

BASE_MEMORY_BYTES = 3 << 29
"""The memory that any module may use: 1.5 GiB."""
MEMORY_PER_BYTE = 100
"""A protobuf of a few bytes a message takes fifty times its size once it is parsed, and an analysis more."""
BASE_SECONDS = 4.0
"""The processor time that any module may use."""
SECONDS_PER_BYTE = 1 / (1 << 20)
"""A module with 310,000 instructions has 45 MiB and was seen to take 29 s on a slow machine."""

TEXT_BASE_MEMORY_BYTES = 2 << 30
"""Memory of the process that parses HLO text, beside what the text needs: jaxlib's libraries take most of it."""
TEXT_MEMORY_PER_BYTE = 40
TEXT_BASE_SECONDS = 20.0
TEXT_SECONDS_PER_BYTE = 1 / (1 << 20)
"""Ten times what jaxlib's parser was seen to take."""

SANDBOX_FILE_BYTES = 4 << 30
"""Of a file that a sandboxed process writes: a text for the parser, a kernel's effects, its answer."""
SANDBOX_OPEN_FILES = 1024
"""One that follows many kernels has a few for each core."""
SANDBOX_ANSWER_BYTES = 1 << 30
"""Of one module's report; the HLO text of a page is nearly all of it."""
SANDBOX_SPARE_SECONDS = 5.0
"""Of a processor, for a process that does not end itself when its time is up: it is in C++ and is killed after these."""
WALL_SECONDS = 120.0
"""The wall time that a sandboxed process may take, asleep or not, beside `WALL_FACTOR` times its processor time.
Waiting for a kernel's effects counts."""
WALL_FACTOR = 30.0


_MAXIMUM_EXTENTS = 4096
"""Stretches of data that are looked for in one file; what lies behind them counts as data."""


def open_untrusted(path: Path, maximum: int, *, follow: bool = True) -> FileIO:
    """Returns the file, open for reading. Raises ArtifactError when it is no regular file or has more than `maximum`
    bytes.

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
            raise ArtifactError(f"`{path.name}` has {status.st_size} bytes, more than {maximum}")
    except BaseException:
        file.close()
        raise
    return file


def read_untrusted(path: Path, maximum: int, *, follow: bool = True) -> bytes:
    """Returns the bytes of a regular file that has no more than `maximum` of them; raises ArtifactError as
    `open_untrusted`."""
    with open_untrusted(path, maximum, follow=follow) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size)
            while len(data) < size and (more := file.read(size - len(data))):
                data += more
        except OSError as error:
            raise ArtifactError(f"cannot read `{path}`: {error.strerror or error}") from error
    return data


def count_stored_bytes(paths: Iterable[Path]) -> int:
    """Bytes of the files, without the holes of sparse ones; what cannot be opened counts as none."""
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
    """Bytes between holes. A file system that knows of no holes says that all is data."""
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
