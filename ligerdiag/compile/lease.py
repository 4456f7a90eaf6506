"""A lease: a file that a process keeps locked while it lives, however it ends.

The kernel of the operating system drops the lock of a process that dies, so a file that no process holds was left
behind. A process id says less: it is reused, and another container has another process of that id.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
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
