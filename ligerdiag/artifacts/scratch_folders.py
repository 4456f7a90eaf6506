"""Puts finished artifacts in place, whole or not at all; leases and temporary folders of one process, removed where it
was killed.

A lease: a file that a process keeps locked while it lives, however it ends.

The kernel of the operating system drops the lock of a process that dies, so a file that no process holds was left
behind. A process id says less: it is reused, and another container has another process of that id.

Temporary folders of one process, which the next run removes if that process was killed.

1. A folder belongs to the process that holds the lock on the file `lock` in it. The kernel of the operating system
   drops the lock of a process that ends, however it ended: neither a reused process id nor another container's
   processes can be taken for the owner.
2. The file gets its name when it is locked already, so no process finds a new folder that is not locked.
3. Only a real folder of our own user, with our name and an unlocked `lock`, is removed. One without a `lock`, of a process
   killed while it made the folder, holds nothing; it is removed when it is a day old.

Stores finished artifacts by key, whole or not at all.

1. An artifact is made in a temporary sibling, and moved into place by one rename: no process sees it half written.
2. A process that compiles a key holds its lock; others that want the same program wait, and then find it. The kernel of
   the operating system drops the lock of a process that dies.
3. A damaged or outdated artifact is moved aside before the new one is moved in.
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
    """A lock that is held until `end`, or the end of the process; ends with the last reference, too."""

    path: Path
    file: TextIO

    def end(self) -> None:
        """Gives the lock up and removes its file."""
        _end(self.path, self.file)


def hold_lease(path: Path) -> Lease:
    """Makes the file and holds it locked; OSError where that cannot be."""
    while True:
        file = path.open("w", encoding="ascii")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                break
        file.close()  # another process took it for one that was left behind, and removed it
    lease = Lease(path, file)
    finalize(lease, _end, path, file)
    return lease


def is_held(path: Path) -> bool:
    """Returns whether a living process holds it."""
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
    """A temporary folder that other users cannot enter."""

    def __init__(self, kind: str = "") -> None:
        """kind: stands in its name, for people. Removes what processes that were killed left behind, once a process."""
        remove_stale_folders_once()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX))
        try:
            self._lock = os.open(self.path / NEW_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            self.path.rmdir()
            raise
        with suppress(OSError):  # a file system without locks: nobody can take this folder for an abandoned one, either
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(self.path / NEW_LOCK, self.path / LOCK)

    def remove(self) -> None:
        """Removes the folder with all that is in it; may be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def remove_stale_folders(parent: Path) -> None:
    """Removes the folders of processes that are gone; what cannot be removed stays."""
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
    """changed: when the folder was changed last, in seconds since the epoch."""
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
    """The same of the folder for temporary files; the first call of a process does it."""
    remove_stale_folders(Path(tempfile.gettempdir()))
