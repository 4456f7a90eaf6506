"""Uses Landlock, a protection of the Linux kernel: a process permanently gives up, for itself and its children, the
right to change files outside of one folder.

Linux 5.13 and later may offer Landlock to any process; the rights that it covers depend on its version (`linux/landlock.h`).
A file that was open before stays open. Below that folder the process makes no devices, sockets and pipes, and from version 5
on it sends no ioctl to devices. It opens no device, not even to read, except harmless ones (`/dev/null` and the like). From
version 4 on it cannot connect to a TCP port or listen on one. From version 6 on it cannot send a signal to a process outside
of its Landlock domain, or connect to an abstract Unix socket of such a process. Nothing of this can be undone, not even by
root, unlike a mount namespace, which root could remount. A file's mode, times, owner and attributes could still be changed:
`seccomp` denies that.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls, the same on all architectures."""
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_MAKES_SPECIAL = sum(1 << bit for bit in (6, 9, 10, 11))
"""Bits of the rights to make devices, sockets and pipes."""
_RIGHTS = (
    (1, _WRITE_FILE | _READ_FILE | sum(1 << bit for bit in range(4, 13))),  # remove and make, of all kinds
    (2, 1 << 13),  # move from one folder to another
    (3, 1 << 14),  # truncate
    (5, 1 << 15),  # ioctl on devices
)
"""(version of Landlock that introduced them, bits of the rights to files) for all rights that are denied."""
_IOCTL_DEVICE = 1 << 15
_NETWORK_SINCE, _NETWORK = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""The first version of Landlock that can deny signals to other processes and connections to their abstract Unix sockets, and
the bits of these two denials.
"""
_HARMLESS = ("null", "zero", "full", "random", "urandom")
_MEMORY = "/dev/shm"


def deny_changes(folder: Path) -> int:
    """Takes from this thread and its children the right to change files outside of the folder, except `/dev/null`. They
    can open only harmless devices from then on. Returns the version of Landlock. Raises OSError if Landlock does not
    allow this.
    """
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no Landlock")
    library = ctypes.CDLL(None, use_errno=True)
    version = find_version(library)
    handled = sum(rights for since, rights in _RIGHTS if since <= version)
    fields = [handled]
    if version >= _NETWORK_SINCE:
        fields.append(_NETWORK)
    if version >= _SCOPES_SINCE:
        fields.append(_SCOPES)
    rules = call(library, CREATE_RULESET, struct.pack(f"={len(fields)}Q", *fields), 8 * len(fields), 0)
    try:
        _allow(library, rules, folder, handled & ~_MAKES_SPECIAL & ~_IOCTL_DEVICE)
        _allow(library, rules, Path(os.devnull), _WRITE_FILE)
        for path in _list_readable():
            try:
                _allow(library, rules, path, _READ_FILE)
            except OSError:
                continue  # it cannot be opened, and stays closed
        if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise make_error()
        call(library, RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return version


def _list_readable() -> list[Path]:
    """Returns the paths below which files may be read: everything in the root folder except `/dev`, and of `/dev` the
    shared memory and the harmless devices.
    """
    root = [Path("/", name) for name in os.listdir("/") if name != "dev"]
    return [*root, Path(_MEMORY), *[Path("/dev", name) for name in _HARMLESS]]


def find_version(library: ctypes.CDLL) -> int:
    """Returns the version of Landlock that the kernel offers. Raises OSError if it offers none.

    library: the C library, loaded with `use_errno`.
    """
    return call(library, CREATE_RULESET, None, 0, _ASK_VERSION)


def _allow(library: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        call(library, ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def call(library: ctypes.CDLL, number: int, *arguments: object) -> int:
    """Makes the system call with this number and returns its result. Raises OSError if it fails. library: the C
    library.
    """
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(library.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        raise make_error()
    return result


def make_error() -> OSError:
    """Returns an OSError with the error number of the last call of the C library."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
