"""The rights that a sandboxed process gives up before it reads anything, by means of the kernel.

1. Limits of resources: no core file, few open files, no endless files. Memory and time are limited module by module (see
   `dumps.budget`); a process that does not end itself in time is killed (`limit_processor`).
2. A network namespace of its own, in which there is no network. An ordinary user needs a user namespace for it, which some
   kernels refuse: what is refused is said, and the process goes on without.
3. The right to change files, but for one folder: see `landlock`.
4. When memory runs out, the operating system is told to take this process and not its parent.

This has to run before the process has a second thread.
"""

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from ligerdiag.limits import SANDBOX_FILE_BYTES, SANDBOX_OPEN_FILES, SANDBOX_SPARE_SECONDS
from ligerdiag.sandbox.landlock import deny_changes

_OOM_SCORE = "800"


def confine(folder: Path) -> tuple[str, ...]:
    """Gives up what is not needed; returns one line for each thing that the kernel would not take.

    folder: the only one that may still be written to.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, SANDBOX_FILE_BYTES)
    _limit(resource.RLIMIT_NOFILE, SANDBOX_OPEN_FILES)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    refused: list[str] = []
    for give_up, what in ((_leave_network, "the network"), (lambda: deny_changes(folder), "writing to your files")):
        try:
            give_up()
        except OSError as error:
            reason = error.strerror or error
            refused.append(f"the process that reads files could not give up {what}: {reason}")
    return tuple(refused)


def limit_processor(seconds: float) -> None:
    """From now on this process gets so much of a processor, and some to spare, before the kernel kills it by SIGVTALRM.

    A timer and no RLIMIT_CPU: what this process starts, such as a parser that stays for the next modules, has a time of
    its own and would inherit the limit.
    """
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds + SANDBOX_SPARE_SECONDS)


def _limit(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (limit, limit))


def _leave_network() -> None:
    """Raises OSError where the kernel does not allow it."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:  # root stays root, and can read what it could read
        os.unshare(os.CLONE_NEWNET)
        return
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
