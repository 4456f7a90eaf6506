"""Leases, temporary folders and temporary files of one process; the next run removes the folders of a process that was
killed.

A lease is a file that a process keeps locked while it lives. The operating system drops the lock of a process that ends,
however it ends, so an unlocked file is a leftover. A process id would not be enough, because ids are reused, and processes
in another container have other ids.

A temporary folder belongs to the process that holds the lock on the file `lock` in it. That file gets its name only
once it is locked, so no process finds a new folder unlocked. `remove_stale_folders` removes only real folders of our
own user, with our prefix and an unlocked `lock`. A folder without a `lock` holds nothing: its process was killed while
it made the folder. It is removed after a day.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO
from weakref import finalize


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Lease:
    """A lock on a file. It is released by `end`, when nothing refers to this object any more, or when the process ends."""

    path: Path
    file: TextIO

    def end(self) -> None:
        """Releases the lock and removes the file."""
        _end(self.path, self.file)


def hold_lease(path: Path) -> Lease:
    """Makes the file, locks it, and returns the lease. Raises OSError if the file cannot be made, or if another process
    holds the lease.
    """
    while True:
        file = path.open("w", encoding="ascii")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                break
        file.close()  # another process took it for a leftover and removed it
    lease = Lease(path, file)
    finalize(lease, _end, path, file)
    return lease


def is_held(path: Path) -> bool:
    """Returns whether a process that still runs has the lease (a lock) on this file."""
    try:
        with path.open("r", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _end(path: Path, file: TextIO) -> None:
    if not file.closed:
        with suppress(OSError):
            path.unlink()
        file.close()


PREFIX = "ligerdiag-"
LOCK = "lock"
NEW_LOCK = ".lock"
UNLOCKED_SECONDS = 24 * 3600.0


class ScratchFolder:
    """A temporary folder that other users cannot enter. If this process is killed, a later run removes the folder."""

    def __init__(self, kind: str = "") -> None:
        """Makes the folder. The first folder of a process also removes the folders that dead processes left.

        kind: a part of the folder's name, for people who look at it.
        """
        remove_stale_folders_once()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX))
        try:
            self._lock = os.open(self.path / NEW_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            self.path.rmdir()
            raise
        with suppress(OSError):  # without locks, nobody takes it for abandoned
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(self.path / NEW_LOCK, self.path / LOCK)

    def remove(self) -> None:
        """Removes the folder and its content. A second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def remove_stale_folders(parent: Path) -> None:
    """Removes temporary folders of processes that have ended from the folder `parent`. Ignores errors."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            if _is_abandoned(folder, status.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _is_abandoned(folder: Path, changed: float) -> bool:
    """Whether the process that made the temporary folder has ended. changed: when the folder was last modified, in
    seconds since the epoch.
    """
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        left = {entry.name for entry in folder.iterdir()}
        return left <= {NEW_LOCK} and time.time() - changed > UNLOCKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


@cache
def remove_stale_folders_once() -> None:
    """Removes the folders of ended processes from the system's folder for temporary files. Only the first call in a
    process does this.
    """
    remove_stale_folders(Path(tempfile.gettempdir()))


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file so that a reader sees the old or the new contents and never a part: writes beside `path`, then renames.
    Raises OSError. mode: the permissions of the file.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
