"""Records what the user's code reads from outside while it is imported and traced, so that a cached answer is not used after
one of these things has changed. The things are environment variables, contents and presence of files, and names in folders.

Python reports each opened file and each listed folder to its audit hooks. For environment variables, methods of
`os.environ` are replaced, and for the presence of files `os.stat`. A read counts if the user's code makes it, itself or
through an installed package such as numpy, and not if JAX, Triton or ligerdiag makes it on the way, or if Python reads a
module to import it. Not seen: files that a library opens in C, the environment of a started program, the time, and random
numbers.

Where a worker has another value of a variable than the process that asks, such as JAX_PLATFORMS, the user's own code reads
the value of that process, and every library the worker's. It also reads that process's `sys.argv`.
"""

import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, cast

from ligerdiag.artifacts.dependencies import DependencyKind, compute_digest, digest_text
from ligerdiag.errors import is_project_file
from ligerdiag.toolchains.toolchain import is_set_for_workers
from ligerdiag.workers.given_process import GIVEN_VARIABLE, GivenProcess, read_given

_TOOLS = frozenset({"jax", "jaxlib", "jax_triton", "jax_plugins", "triton", "ligerdiag"})
"""Packages whose own reads do not count: their versions and settings are part of every question to the cache."""
_PSEUDO = ("/proc/", "/sys/", "/dev/")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class OutsideReads:
    """The environment variables, files and folders that the user's code has read since the last call of `forget`, each with
    its digest at the first read.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._own: set[str] = set()
        """Paths and names of variables that this process has written; reading them afterwards depends on nothing outside."""
        self._given = GivenProcess()
        self._is_worker = False
        self._is_installed = False

    def install(self) -> None:
        """Installs the hooks that record each read. They stay until the process ends."""
        if self._is_installed:
            return
        self._is_installed = True
        sys.addaudithook(self._note_event)
        self._given, self._is_worker = read_given(), GIVEN_VARIABLE in os.environ
        mapping: Any = type(os.environ)
        mapping.__iter__ = self._watch_names(mapping.__iter__)
        mapping.__len__ = _count
        mapping.__getitem__ = self._watch_read(mapping.__getitem__)
        mapping.__setitem__ = self._watch_write(mapping.__setitem__)
        mapping.__delitem__ = self._watch_write(self._watch_delete(mapping.__delitem__))
        original = os.stat
        os.stat = self._watch_stat(original)
        for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if original in supported:  # shutil asks whether `os.stat` is one of them
                supported.add(os.stat)

    def forget(self) -> None:
        """Removes all recorded reads, so that the record is empty again."""
        self._digests, self._own = {}, set()

    def get_digests(self) -> dict[str, str]:
        """Returns the recorded reads. A key names what was read, such as an environment variable or a file; the value is its
        digest at the first read.
        """
        return dict(self._digests)

    def is_given(self, dependency: str) -> bool:
        """Returns whether the dependency is the state of the process that asks, as it was when this worker started."""
        kind, _, name = dependency.partition(":")
        return f"{kind}:" == DependencyKind.COMMAND_LINE.value or (
            f"{kind}:" == DependencyKind.VARIABLE.value and name in self._given.variables
        )

    def _note_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            is_written = bool(set("wax+") & set(mode) if mode else flags & _WRITES)
            self._note_path(DependencyKind.CONTENTS, path, is_written=is_written)
        elif event in ("os.listdir", "os.scandir"):
            self._note_path(DependencyKind.FOLDER, arguments[0] if arguments[0] is not None else ".")

    def _note_path(self, kind: DependencyKind, path: Any, *, is_written: bool = False) -> None:
        if not isinstance(path, str | bytes | os.PathLike):  # an open file has only a number
            return
        caller = _find_caller()
        if caller is None or caller.f_code.co_filename.startswith("<frozen importlib") or not _is_read_by_user(caller):
            return
        try:
            file = os.path.abspath(os.fsdecode(cast("str", path)))
        except (OSError, ValueError):
            return
        if file in self._own or f"{kind.value}{file}" in self._digests or file.startswith(_PSEUDO):
            return
        if is_written:
            self._own.add(file)
        elif is_project_file(file):
            self._digests[f"{kind.value}{file}"] = compute_digest(f"{kind.value}{file}")

    def _watch_stat(self, stat: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        @wraps(stat)
        def watched(path: Any, **options: Any) -> os.stat_result:
            self._note_path(DependencyKind.PRESENCE, path)
            return stat(path, **options)

        return watched

    def _watch_read(self, read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def getitem(mapping: Any, key: Any) -> Any:
            if self._is_given(mapping, key):
                value = self.read_given(os.fsdecode(key))
                if value is None:
                    raise KeyError(key)
                return value if mapping is os.environ else os.fsencode(value)
            try:
                value = read(mapping, key)
            except KeyError:
                self._note_variable(mapping, key, None)
                raise
            self._note_variable(mapping, key, value)
            return value

        return getitem

    def _is_given(self, mapping: Any, key: Any) -> bool:
        """Returns whether the user's code asks for a variable of which the process that asks has another value."""
        if (mapping is not os.environ and mapping is not os.environb) or not isinstance(key, str | bytes):
            return False
        name = os.fsdecode(key)
        return name in self._given.variables and name not in self._own and is_own_code(_find_caller())

    def read_given(self, name: str) -> str | None:
        """Returns the value that an environment variable has in the process that asks; an answer then depends on it."""
        value = self._given.variables[name] if name in self._given.variables else os.environ.get(name)
        self._digests.setdefault(f"{DependencyKind.VARIABLE.value}{name}", digest_text(value))
        return value

    def _watch_names(self, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        def names(mapping: Any) -> Iterator[Any]:
            found = list(iterate(mapping))
            if (mapping is os.environ or mapping is os.environb) and is_own_code(_find_caller()):
                given = {name: value for name, value in self._given.variables.items() if name not in self._own}
                encode: Callable[[str], Any] = os.fsencode if mapping is os.environb else str
                added = [encode(name) for name, value in given.items() if value is not None]
                found = [one for one in found if os.fsdecode(one) not in given] + added
            return iter(found)

        return names

    def _watch_delete(self, delete: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def remove(mapping: Any, key: Any) -> None:
            is_given = self._is_given(mapping, key)
            if is_given and self._given.variables[os.fsdecode(key)] is None:
                raise KeyError(key)
            try:
                delete(mapping, key)
            except KeyError:
                if not is_given:
                    raise

        return remove

    def give_arguments(self, argv: Sequence[str] | None) -> None:
        """Sets `sys.argv` for the rest of the process; does nothing in a process that is no worker.

        argv: the arguments; None for those of the process that asks. An answer then depends on them if the user's code reads
        them.
        """
        if not self._is_worker:
            return
        values = list(self._given.argv or ()) if argv is None else list(argv)
        sys.argv = values
        if argv is not None:
            return

        def get(_: ModuleType) -> list[str]:
            if _is_read_by_user(_find_caller()):
                if self._given.argv is None:
                    raise RuntimeError("`sys.argv` is too long to be passed on to the process that compiles")
                text = json.dumps(list(self._given.argv))
                self._digests.setdefault(DependencyKind.COMMAND_LINE.value, digest_text(text))
            return values

        def put(_: ModuleType, value: list[str]) -> None:
            nonlocal values
            values = value

        system: Any = sys
        system.__class__ = type("WatchedSystem", (ModuleType,), {"argv": property(get, put)})

    def _note_variable(self, mapping: Any, key: str | bytes, value: str | bytes | None) -> None:
        if mapping is not os.environ and mapping is not os.environb:
            return
        name = os.fsdecode(key)
        dependency = f"{DependencyKind.VARIABLE.value}{name}"
        if (
            name in self._own
            or dependency in self._digests
            or is_set_for_workers(name)
            or name in self._given.variables
        ):
            return
        if _is_read_by_user(_find_caller()):
            self._digests[dependency] = digest_text(None if value is None else os.fsdecode(value))

    def _watch_write(self, write: Callable[..., None]) -> Callable[..., None]:
        def change(mapping: Any, key: Any, *value: Any) -> None:
            write(mapping, key, *value)
            if mapping is os.environ or mapping is os.environb:
                self._own.add(os.fsdecode(key))

        return change


OUTSIDE_READS = OutsideReads()


def _count(mapping: Iterable[Any]) -> int:
    return sum(1 for _ in mapping)  # `list` would ask for the length


def _find_caller() -> FrameType | None:
    """Returns the innermost frame outside of this file."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _is_read_by_user(frame: FrameType | None) -> bool:
    """Returns whether the innermost frame that is neither of Python's library nor of an installed package is the user's
    code, with no package of `_TOOLS` before it.
    """
    while frame is not None:
        if is_project_file(frame.f_code.co_filename):
            return True
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _TOOLS:
            return False
        frame = frame.f_back
    return False


def is_own_code(frame: FrameType | None) -> bool:
    """Returns whether the innermost frame that is not of Python's library is the user's code."""
    while frame is not None:
        file = frame.f_code.co_filename
        if is_project_file(file):
            return True
        if file == tempfile.__file__:
            return False  # it makes its folders where the worker's are, which are removed at the end
        if file.startswith("<") and not file.startswith("<frozen"):
            return frame.f_globals.get("__name__") == "__main__"  # of `python -c`, or a notebook
        if not file.startswith(("<", _LIBRARY)) or _INSTALLED.search(file):
            return False
        frame = frame.f_back
    return False
