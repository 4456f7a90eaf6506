"""Filters system calls: a process permanently gives up, for itself and its children, the system calls that reading
files never needs.

- Denied are changes of owners, modes, times and attributes of files; making devices; sockets, except pairs of streams;
  namespaces, mounts and file handles; other processes' memory and limits; keys, modules, clocks and the like. Each
  fails with EPERM; `clone3`, whose flags a filter cannot see, with ENOSYS, so that libraries use `clone`.
- Denied `ioctl` commands put input into a terminal (TIOCSTI, TIOCLINUX), make one the controlling terminal, or change a
  file's attributes.
- Everything else is allowed, because `landlock` protects files. This is not a list of harmless calls.

The filter is a program of classic BPF (`linux/filter.h`, `linux/seccomp.h`), made from the tables below. libseccomp
could make it too, but its Python bindings either need that library on the system, which slim images lack, or have a
single author. The filter supports x86_64, without x32, and aarch64; a call of any other architecture fails.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ligerdiag.sandbox.landlock import NO_NEW_PRIVILEGES, make_error

_DENIED = """
mknod 133 -            mknodat 259 33
chown 92 -             fchown 93 55           lchown 94 -            fchownat 260 54
chmod 90 -             fchmod 91 52           fchmodat 268 53        fchmodat2 452 452
utime 132 -            utimes 235 -           futimesat 261 -        utimensat 280 88
setxattr 188 5         lsetxattr 189 6        fsetxattr 190 7        setxattrat 463 463
removexattr 197 14     lremovexattr 198 15    fremovexattr 199 16    removexattrat 466 466
file_setattr 469 469
socket 41 198          connect 42 203         bind 49 200            listen 50 201
io_uring_setup 425 425 io_uring_enter 426 426 io_uring_register 427 427
mount 165 40           umount2 166 39         pivot_root 155 41      chroot 161 51
open_tree 428 428      move_mount 429 429     fsopen 430 430         fsconfig 431 431
fsmount 432 432        fspick 433 433         mount_setattr 442 442  open_tree_attr 467 467
setns 308 268          unshare 272 97
open_by_handle_at 304 265                     name_to_handle_at 303 264
ptrace 101 117         process_vm_readv 310 270                      process_vm_writev 311 271
pidfd_getfd 438 438    process_madvise 440 440                       process_mrelease 448 448
kcmp 312 272           perf_event_open 298 241                       bpf 321 280
userfaultfd 323 282    fanotify_init 300 262
add_key 248 217        request_key 249 218    keyctl 250 219
init_module 175 105    finit_module 313 273   delete_module 176 106
kexec_load 246 104     kexec_file_load 320 294                       reboot 169 142
swapon 167 224         swapoff 168 225        acct 163 89            quotactl 179 60
quotactl_fd 443 443    sethostname 170 161    setdomainname 171 162
settimeofday 164 170   clock_settime 227 112  clock_adjtime 305 266  adjtimex 159 171
iopl 172 -             ioperm 173 -           syslog 103 116         vhangup 153 58
shmget 29 194          shmat 30 196           shmctl 31 195
semget 64 190          semop 65 193           semctl 66 191          semtimedop 220 192
msgget 68 186          msgsnd 69 189          msgrcv 70 188          msgctl 71 187
mq_open 240 180        mq_unlink 241 181
"""
"""Name of each denied system call, its number on x86_64, and its number on aarch64; `-` where there is none."""
CLONE3 = 435
_COMMANDS = (
    0x5412,  # TIOCSTI
    0x541C,  # TIOCLINUX
    0x540E,  # TIOCSCTTY
    0x40086602,  # FS_IOC_SETFLAGS
    0x401C5820,  # FS_IOC_FSSETXATTR
)
_NEW_NAMESPACES = 0x7E020000
_SOCKET_TYPE, _DATAGRAMS = 0xF, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The constants of one processor architecture."""

    audit: int
    """The kernel's constant for the architecture, AUDIT_ARCH_*."""
    column: int
    """Index of the architecture's column of numbers in `_DENIED`."""
    ioctl: int
    clone: int
    socketpair: int
    prlimit64: int


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(audit=0xC000003E, column=0, ioctl=16, clone=56, socketpair=53, prlimit64=302),
    "aarch64": _Machine(audit=0xC00000B7, column=1, ioctl=29, clone=220, socketpair=199, prlimit64=261),
}
_X32 = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_SET_SECCOMP, _FILTER = 22, 2


def list_denied(machine: str) -> dict[str, int]:
    """Returns the numbers of the system calls that are denied whatever their arguments, by name, for this architecture."""
    words = _DENIED.split()
    rows = zip(words[::3], words[1::3], words[2::3], strict=True)
    column = _MACHINES[machine].column
    return {name: int(row[column]) for name, *row in rows if row[column] != "-"}


class _Program:
    """A program of classic BPF, the kernel's language for filters; targets of jumps are relative."""

    def __init__(self) -> None:
        self.code: Final[list[tuple[int, int, int, int]]] = []

    def add(self, code: int, value: int, then: int = 0, otherwise: int = 0) -> None:
        self.code.append((code, then, otherwise, value))

    def load(self, offset: int) -> None:
        self.add(_LOAD, offset)

    def load_argument(self, number: int) -> None:
        """Adds an instruction that loads the lower 32 bits of an argument of the system call. The kernel ignores the
        upper bits of the arguments that are compared here.
        """
        self.load(_ARGUMENTS + 8 * number)

    def fail(self, error: int) -> None:
        self.add(_RETURN, _ERROR | error)

    def fail_for(self, call: int, error: int = errno.EPERM) -> None:
        self.add(_EQUAL, call, 0, 1)
        self.fail(error)

    def fail_where(self, call: int, argument: int, *tests: tuple[int, int], mask: int | None = None) -> None:
        """Adds instructions that deny the system call `call` if one of its arguments passes at least one of the tests.

        argument: number of that argument, from 0. tests: (`_EQUAL`, `_AT_LEAST` or `_ANY_BIT`, the value with which the
        argument is compared). mask: the bits of the argument that are compared; None for all 32.
        """
        own = _Program()
        own.load_argument(argument)
        if mask is not None:
            own.add(_AND, mask)
        for kind, value in tests:
            own.add(kind, value, 0, 1)
            own.fail(errno.EPERM)
        own.load(_NUMBER)
        self.add(_EQUAL, call, 0, len(own.code))
        self.code.extend(own.code)


def make_filter(machine: str) -> bytes:
    """Returns the filter in the form that the kernel takes. Raises OSError for an architecture that is not supported."""
    known = _MACHINES.get(machine)
    if known is None:
        raise OSError(f"ligerdiag has no filter for system calls (seccomp) for the architecture {machine}")
    program = _Program()
    program.load(_ARCHITECTURE)
    program.add(_EQUAL, known.audit, 1, 0)
    program.fail(errno.EPERM)
    program.load(_NUMBER)
    program.add(_AT_LEAST, _X32, 0, 1)
    program.fail(errno.EPERM)
    for number in list_denied(machine).values():
        program.fail_for(number)
    program.fail_for(CLONE3, errno.ENOSYS)
    program.fail_where(known.clone, 0, (_ANY_BIT, _NEW_NAMESPACES))
    program.fail_where(known.ioctl, 1, *[(_EQUAL, command) for command in _COMMANDS])
    program.fail_where(known.socketpair, 1, (_EQUAL, _DATAGRAMS), mask=_SOCKET_TYPE)
    program.fail_where(known.prlimit64, 0, (_AT_LEAST, 1))
    program.add(_RETURN, _ALLOW)
    return b"".join(struct.pack("=HBBI", *one) for one in program.code)


class _FilterProgram(ctypes.Structure):
    """The kernel's struct sock_fprog: a filter's length in instructions, and its address."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def deny_calls() -> None:
    """Takes from this thread and its children the system calls that reading files never needs. Raises OSError if this
    system cannot filter system calls.
    """
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no seccomp")
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        raise OSError(
            f"the filter of system calls needs a 64-bit little-endian process, unlike this one on {platform.machine()}"
        )
    code = make_filter(os.uname().machine)
    kept = ctypes.create_string_buffer(code, len(code))
    program = _FilterProgram(len(code) // 8, ctypes.addressof(kept))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise make_error()
    if library.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise make_error()
