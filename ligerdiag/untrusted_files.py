"""The only way to open an untrusted file: regular files only, without waiting, up to a size bound.

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
