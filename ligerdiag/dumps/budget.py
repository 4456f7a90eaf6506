"""Memory and time that one module may take: a multiple of what its files have on disk, not more (see `limits`).

The operating system refuses what is above, and that ends in an error of one line.
"""

import resource
import signal
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from ligerdiag.errors import ArtifactError
from ligerdiag.limits import BASE_MEMORY_BYTES, BASE_SECONDS, MEMORY_PER_BYTE, SECONDS_PER_BYTE
from ligerdiag.untrusted_files import count_stored_bytes

_STATM = Path("/proc/self/statm")


def compute_allowance(paths: Iterable[Path]) -> int:
    """Bytes of memory that reading and analysing these files may take."""
    return BASE_MEMORY_BYTES + MEMORY_PER_BYTE * count_stored_bytes(paths)


def compute_seconds(paths: Iterable[Path]) -> float:
    """Seconds of a processor that reading and analysing these files may take."""
    return BASE_SECONDS + SECONDS_PER_BYTE * count_stored_bytes(paths)


class BudgetError(ArtifactError):
    """A module takes more memory or time than its files are worth."""


class _TimeIsUp(BaseException):
    """Not an Exception, so that no handler on the way takes it for a fault."""


@contextmanager
def limit_time(seconds: float, name: str) -> Generator[None]:
    """Allows that many seconds of processor time, and raises BudgetError with that name after them.

    Has an effect only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except _TimeIsUp:
        raise BudgetError(f"`{name}` takes more than {seconds:.3g} s: --timeout allows more") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def limit_memory(allowance: int, name: str) -> Generator[None]:
    """No more than `allowance` bytes over what the process has now; BudgetError with that name above it.

    Where the operating system does not say what the process has, nothing is bounded.
    """
    try:
        used = int(_STATM.read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used + allowance, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except MemoryError:
        raise BudgetError(f"`{name}` takes more than {allowance >> 20} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
