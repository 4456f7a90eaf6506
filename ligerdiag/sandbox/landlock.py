"""Landlock: a process gives up, for good and for all that it starts, to change any file but those below one folder.

1. The kernel of Linux 5.13 and later may offer it to any process; which rights there are to give up depends on its version
   (`linux/landlock.h`). Reading is not given up. A file that was open before stays writable.
2. From version 6 on, no process outside can be sent a signal, either.
3. Nothing of it can be undone, not by root either: a mount namespace, which root could mount anew, is no such thing.
4. What can still be changed of a file elsewhere is its mode and its times.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, the same on all architectures."""
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE = 1 << 1
_CHANGES = (
    (
        1,
        _WRITE_FILE | sum(1 << bit for bit in range(4, 13)),
    ),  # remove and make: folders, files, sockets, links, devices
    (2, 1 << 13),  # move from one folder to another
    (3, 1 << 14),  # truncate
)
"""Since which version, and the rights to change files."""
_SIGNALS_SINCE, _SIGNALS = 6, 1 << 1


def deny_changes(folder: Path) -> None:
    """From now on this thread and what it starts change no file but below the folder; OSError where that cannot be.

    `/dev/null` can be written to, too.
    """
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no Landlock")
    library = ctypes.CDLL(None, use_errno=True)
    version = find_version(library)
    changes = sum(rights for since, rights in _CHANGES if since <= version)
    fields = [changes]
    if version >= _SIGNALS_SINCE:
        fields += [0, _SIGNALS]
    rules = _call(library, _CREATE_RULESET, struct.pack(f"={len(fields)}Q", *fields), 8 * len(fields), 0)
    try:
        _allow(library, rules, folder, changes)
        _allow(library, rules, Path(os.devnull), _WRITE_FILE)
        if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _make_error()
        _call(library, _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def find_version(library: ctypes.CDLL) -> int:
    """What the kernel offers; OSError where that is nothing. library: of C."""
    return _call(library, _CREATE_RULESET, None, 0, _ASK_VERSION)


def _allow(library: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(library, _ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(library: ctypes.CDLL, number: int, *arguments: object) -> int:
    """The system call's result; OSError where it has none."""
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(library.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        raise _make_error()
    return result


def _make_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
