"""Pools of one worker each, so that trials of different toolchains and variations run beside each other.

A pool assumes that its toolchain does not change, and its cache remembers the hashes of files: each thread takes a lane
of its own, and passes it on when it is done. There are never more lanes of one toolchain than threads that asked for
one at a time.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.toolchain import Toolchain
from ligerdiag.errors import LigerdiagError


class Lanes:
    """The lanes of one cache."""

    def __init__(self, cache_root: Path, timeout: float) -> None:
        """timeout: seconds for one job."""
        self._cache_root = cache_root
        self._timeout = timeout
        self._lock = Lock()
        self._all: list[Pool] = []
        self._idle: dict[str, list[Pool]] = {}
        self._is_closed = False

    @contextmanager
    def take(self, toolchain: Toolchain) -> Generator[Pool]:
        """Takes a lane of that toolchain, exclusively for the caller. Raises LigerdiagError after `close`."""
        with self._lock:
            if self._is_closed:
                raise LigerdiagError("the workers were ended")
            idle = self._idle.setdefault(toolchain.name, [])
            if idle:
                pool = idle.pop()
            else:
                pool = Pool(cache=Cache(self._cache_root), toolchain=toolchain, jobs=1, timeout=self._timeout)
                self._all.append(pool)
        try:
            yield pool
        finally:
            with self._lock:
                idle.append(pool)

    def close(self) -> None:
        """Ends all workers, also busy ones."""
        with self._lock:
            self._is_closed = True
        for pool in self._all:
            pool.close()
