"""Bounds on memory and time: what a file costs may be a multiple of what it has on disk, not more.

A protobuf of a few bytes a message takes fifty times its size once it is parsed, and an analysis more; a module can be
made so that following it takes for ever. The operating system refuses what is above the bounds, and that ends in an error
of one line.
"""

import resource
import signal
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from ligerdiag.errors import ArtifactError

BASE_BYTES = 3 << 29
"""What any module may take: 1.5 GiB."""
BYTES_PER_BYTE = 100
BASE_SECONDS = 4.0
"""What any module may take of a processor: the load of the machine does not count."""
SECONDS_PER_BYTE = 0.2 / (1 << 20)
_STATM = Path("/proc/self/statm")


def compute_allowance(paths: Iterable[Path]) -> int:
    """Bytes of memory that reading and analysing these files may take."""
    return BASE_BYTES + BYTES_PER_BYTE * _compute_size(paths)


def compute_seconds(paths: Iterable[Path]) -> float:
    """Seconds of a processor that reading and analysing these files may take."""
    return BASE_SECONDS + SECONDS_PER_BYTE * _compute_size(paths)


def _compute_size(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())


class _TimeIsUp(BaseException):
    """No Exception, so that nobody on the way takes it for a fault."""


@contextmanager
def limit_time(seconds: float, name: str) -> Generator[None]:
    """No more than so many seconds of a processor; ArtifactError with that name after them.

    Bounds nothing but in the main thread.
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
        raise ArtifactError(f"`{name}` takes more than {seconds:.3g} s: --timeout allows more") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def limit_memory(allowance: int, name: str) -> Generator[None]:
    """No more than `allowance` bytes over what the process has now; ArtifactError with that name above it.

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
        raise ArtifactError(f"`{name}` takes more than {allowance >> 20} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
