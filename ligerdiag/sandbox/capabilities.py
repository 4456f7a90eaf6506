"""Drops Linux capabilities: the rights of root, or of the creator of a user namespace inside of it.

All capabilities leave each set: ambient, bounding, inheritable, permitted and effective. Root is then an ordinary user
who owns root's files; it reads other users' files only if their mode lets everybody. Reducing the bounding set needs
CAP_SETPCAP. A process without it has no capabilities to lose, and `no_new_privs`, which every process here has, keeps a
privileged program from giving it any.
"""

import ctypes
import re
import struct
import sys
from pathlib import Path

from ligerdiag.sandbox.landlock import NO_NEW_PRIVILEGES, make_error

_BOUNDING_READ, _BOUNDING_DROP = 23, 24
_AMBIENT, _AMBIENT_CLEAR = 47, 4
_VERSION_3 = 0x20080522
_MOST = 64
_SETS = re.compile(r"^Cap(?:Inh|Prm|Eff|Amb):\s*(\w+)$", re.MULTILINE)


def drop_capabilities() -> None:
    """Drops all capabilities of this process and its children; OSError if that is impossible."""
    if sys.platform != "linux":
        raise OSError(f"Linux capabilities do not exist on {sys.platform}")
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise make_error()
    library.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)  # not before Linux 4.3, which has none
    for number in range(_MOST):
        if library.prctl(_BOUNDING_READ, number, 0, 0, 0) == 1:
            library.prctl(_BOUNDING_DROP, number, 0, 0, 0)
    header, none = struct.pack("=Ii", _VERSION_3, 0), bytes(24)
    if library.capset(header, none):
        raise make_error()
    left = _SETS.findall(Path("/proc/self/status").read_text(encoding="ascii"))
    if any(int(one, 16) for one in left):
        raise OSError("some are left")
