"""Records which environment variables and which data files the user's code reads while it is imported and traced, so that
an answer in the cache is not used after one of them has changed.

Python reports each opened file to its audit hooks; reads of `os.environ` are seen by a method that takes the place of the
mapping's own. A read counts if the user's code makes it, itself or through an installed package such as numpy, and not if
JAX, Triton or ligerdiag makes it on the way. Not seen: files that a library opens in C, the contents of a folder,
whether a file exists, the time, and random numbers.
"""

import inspect
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from ligerdiag.artifacts.dependencies import compute_digest, digest_text, name_variable
from ligerdiag.errors import is_project_file
from ligerdiag.toolchains.toolchain import is_set_for_workers

_TOOLS = frozenset({"jax", "jaxlib", "jax_triton", "jax_plugins", "triton", "ligerdiag", "importlib"})
"""Packages whose own reads do not count: their versions and settings are part of every question to the cache."""
_PSEUDO = ("/proc/", "/sys/", "/dev/")
_SOURCES = (".py", ".pyc", ".pyi", ".so", ".pth")
"""Endings of files that imports read; the imported modules of the project are dependencies anyway."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class OutsideReads:
    """The environment variables and the data files that were read since the last `forget`."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._own: set[str] = set()
        """The files and variables that this process has written; reading them afterwards depends on nothing outside."""
        self._is_installed = False

    def install(self) -> None:
        """Begins to record, for the rest of the process."""
        if self._is_installed:
            return
        self._is_installed = True
        sys.addaudithook(self._note_event)
        mapping: Any = type(os.environ)
        mapping.__getitem__ = self._watch_read(mapping.__getitem__)
        mapping.__setitem__ = self._watch_write(mapping.__setitem__)

    def forget(self) -> None:
        """Forgets the reads so far."""
        self._digests, self._own = {}, set()

    def get_digests(self) -> dict[str, str]:
        """Returns the dependencies by name, each with the digest that it had when it was first read."""
        return dict(self._digests)

    def _note_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path, mode, flags = arguments
        try:
            file = os.path.realpath(os.fsdecode(path))
        except (OSError, ValueError):
            return
        if file.endswith(_SOURCES) or file.startswith(_PSEUDO) or file in self._digests:
            return
        if not _is_read_by_user(_find_caller()) or not is_project_file(file):
            return
        if (mode and set("wax+") & set(mode)) or (not mode and flags & _WRITES):
            self._own.add(file)
        elif file not in self._own:
            self._digests[file] = compute_digest(file)

    def _watch_read(self, read: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
        def getitem(mapping: Any, name: str) -> str:
            try:
                value: str | None = read(mapping, name)
            except KeyError:
                value = None
            dependency = name_variable(name)
            is_new = dependency not in self._digests and dependency not in self._own
            if is_new and mapping is os.environ and not is_set_for_workers(name) and _is_read_by_user(_find_caller()):
                self._digests[dependency] = digest_text(value)
            if value is None:
                raise KeyError(name) from None
            return value

        return getitem

    def _watch_write(self, write: Callable[[Any, str, str], None]) -> Callable[[Any, str, str], None]:
        def setitem(mapping: Any, name: str, value: str) -> None:
            write(mapping, name, value)
            if mapping is os.environ:
                self._own.add(name_variable(name))

        return setitem


OUTSIDE_READS = OutsideReads()


def _find_caller() -> FrameType | None:
    """Returns the frame that called the caller of this function."""
    own = inspect.currentframe()
    return own.f_back.f_back if own is not None and own.f_back is not None else None


def _is_read_by_user(frame: FrameType | None) -> bool:
    """Returns whether the innermost caller that is neither Python's library nor an installed package is the user's code,
    with no package of `_TOOLS` before it.
    """
    while frame is not None:
        kind = _classify(frame.f_code.co_filename)
        if kind is not None:
            return kind
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def _classify(file: str) -> bool | None:
    """Returns True for a file of the user's, False for one of `_TOOLS`, None for any other."""
    if file.startswith("<frozen importlib"):
        return False
    if is_project_file(file):
        return True
    parts = Path(file).parts
    return False if _TOOLS & set(parts) else None
