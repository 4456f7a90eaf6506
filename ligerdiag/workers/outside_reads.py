"""Records what the user's code reads from outside while it is imported and traced: environment variables, files and
folders, modules and installed distributions. When one of these has changed, an answer in the cache is not used again.

Python reports each opened file, each listed folder and each started program to its audit hooks. For environment
variables, methods of `os.environ` are replaced; for questions about files, functions of `os`; and a finder in front of
all others sees each import. A read counts if the user's code makes it, itself or through an installed package such as
numpy, and not if JAX, Triton or ligerdiag makes it on the way. A search for a module counts only if the user's code
makes it, because libraries look for optional modules all the time.

What a started program or another process reads, a database or a connection cannot be looked up later: an answer that
depends on it is not used again. Not seen: the files that a library opens in C, /proc, the time, and random numbers.

Where a worker has another value of a variable than the process that asks, such as JAX_PLATFORMS, the user's own code
reads the value of that process, and every library the worker's. It also reads that process's `sys.argv`.
"""

import json
import os
import posixpath
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

from ligerdiag.artifacts.dependencies import RECORDED, DependencyKind, compute_digest, digest_text, search_module
from ligerdiag.errors import is_project_file
from ligerdiag.toolchains.toolchain import is_set_for_workers
from ligerdiag.workers.given_process import GIVEN_VARIABLE, GivenProcess, read_given
from ligerdiag.workers.read_callers import (
    find_caller,
    find_starter,
    is_asked_by_user,
    is_of_spawn,
    is_own_code,
    is_read_by_user,
    list_python_callers,
)

_PSEUDO = ("/proc/", "/sys/", "/dev/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_UNSEEN = {
    "subprocess.Popen": "starts a program",
    "os.system": "starts a program",
    "os.posix_spawn": "starts a program",
    "os.exec": "starts a program",
    "os.fork": "forks a process",
    "os.forkpty": "forks a process",
    "multiprocessing": "starts a process",
    "sqlite3.connect": "opens a database",
    "socket.connect": "opens a connection",
}
"""The audit events after which the user's code may know something that nobody can look up again; multiprocessing has none
when it starts a new interpreter, but opens a pipe to it.
"""
_resolve = posixpath.realpath  # which records nothing
_MAKES = ("os.mkdir", "os.rename", "os.link")
_ASK_PRESENCE = frozenset({"exists", "lexists", "isfile", "isdir", "ismount", "is_file", "is_dir", "is_mount"})
_ASK_LINK = frozenset({"islink", "is_symlink"})
_PASS_STATUS = frozenset({"stat", "lstat", "getsize", "getmtime", "getatime", "getctime", "owner", "group"})
"""Functions of Python's library that return the status of a file, or a part of it, to their caller."""
_RECORDED_OTHERWISE = frozenset({"realpath", "walk", "fwalk", "_fwalk"})


class OutsideReads:
    """Records what the user's code reads from outside: files, folders, environment variables. Each thing has the digest
    that it had at the first read. `forget` empties the record.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._own: set[str] = set()
        """Paths and names of variables that this process has written; reading them afterwards depends on nothing outside."""
        self._made: set[str] = set()
        """Folders that this process has made, such as a temporary one, each also by its path without links; nor does reading
        anything in them.
        """
        self._notes: list[str] = []
        self._given = GivenProcess()
        self._is_worker = False
        self._is_installed = self._has_hook = False
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        """Each replaced function: the module or class that has it, its name there, the original, and what replaced it."""
        self._finder: _ImportWatch | None = None
        self._thread = threading.local()

    def install(self) -> None:
        """Starts to record reads, for the rest of the process."""
        if self._is_installed:
            return
        self._is_installed = True
        self._given, self._is_worker = read_given(), GIVEN_VARIABLE in os.environ
        mapping: Any = type(os.environ)
        self._replace(mapping, "__iter__", self._watch_names)
        self._replace(mapping, "__len__", lambda _: _count)
        self._replace(mapping, "__getitem__", self._watch_read)
        self._replace(mapping, "__setitem__", self._watch_write)
        self._replace(mapping, "__delitem__", lambda delete: self._watch_write(self._watch_delete(delete)))
        for name in ("stat", "lstat"):
            self._replace(os, name, self._watch_stat)
        self._replace(os, "access", self._watch_access)
        self._replace(os, "readlink", self._watch_link)
        self._replace(os, "open", self._watch_open)
        self._replace(os, "fstat", self._watch_fstat)
        self._replace(posixpath, "realpath", self._watch_realpath)
        self._finder = _ImportWatch(self)
        sys.meta_path.insert(0, self._finder)
        if not self._has_hook:
            self._has_hook = True
            sys.addaudithook(self._note_event)

    def uninstall(self) -> None:
        """Ends what `install` began, for a process that is no worker, such as one that runs tests; does nothing if nothing
        is recorded. Python keeps the audit hook, which then does nothing.
        """
        while self._replaced:
            owner, name, original, watched = self._replaced.pop()
            if getattr(owner, name) is watched:
                setattr(owner, name, original)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._is_installed = False
        self.forget()

    def _replace(self, owner: Any, name: str, watch: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        watched = watch(original)
        setattr(owner, name, watched)
        self._replaced.append((owner, name, original, watched))
        for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in supported:  # shutil asks whether `os.stat` is one of them
                supported.add(watched)

    def forget(self) -> None:
        """Empties the record of the reads so far."""
        self._digests, self._own, self._made, self._notes = {}, set(), set(), []

    def get_digests(self) -> dict[str, str]:
        """Returns the digest of each dependency, by its name, from the moment when it was first read."""
        return dict(self._digests)

    def is_given(self, dependency: str) -> bool:
        """Returns whether the dependency is the command line, or an environment variable, of the process that started
        this worker.
        """
        kind, _, name = dependency.partition(":")
        return f"{kind}:" == DependencyKind.COMMAND_LINE.value or (
            f"{kind}:" == DependencyKind.VARIABLE.value and name in self._given.variables
        )

    def get_notes(self, after: int = 0) -> tuple[str, ...]:
        """Returns one line for each reason why the answer is not kept in the cache. The first `after` lines are left
        out.
        """
        return tuple(self._notes[after:])

    def note_search(self, name: str, path: Sequence[str] | None) -> None:
        """Records a search for a module in the entries of a path. None means the entries of `sys.path`."""
        if not is_asked_by_user(find_caller()) or (path is None and name in sys.builtin_module_names):
            return
        tail = name.rpartition(".")[2]
        entries = _make_absolute(sys.path if path is None else path)
        place, number = search_module(tail, entries)
        self._digests.setdefault("\n".join((f"{DependencyKind.IMPORT.value}{tail}", *entries[:number])), place)

    def note_distribution(self, name: str | None, path: Sequence[str]) -> None:
        """Records a search for an installed distribution of this name. None means a search for all distributions."""
        if find_starter(find_caller()) is not None:
            dependency = "\n".join((f"{DependencyKind.DISTRIBUTION.value}{name or ''}", *_make_absolute(path)))
            self._digests.setdefault(dependency, compute_digest(dependency))

    def _note_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_installed:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int) and is_of_spawn(find_caller()):
                self._note_unseen("multiprocessing", arguments)
            elif not getattr(self._thread, "knows_folder", False):
                is_written = bool(set("wax+") & set(mode) if mode else flags & _WRITES)
                self._note_path(DependencyKind.CONTENTS, path, is_written=is_written)
        elif event in ("os.listdir", "os.scandir"):
            self._note_listing(event, arguments[0] if arguments[0] is not None else ".")
        elif event in _MAKES:
            self._note_made(event, arguments)
        elif event in _UNSEEN:
            self._note_unseen(event, arguments)

    def _note_made(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notes a folder that is about to be made, or a file that is about to get another name. The last argument is the
        open folder to which the new path is relative, or -1.
        """
        if not is_read_by_user(find_caller()):
            return
        is_folder, number = event == "os.mkdir", None if arguments[-1] == -1 else arguments[-1]
        try:
            file = _locate(arguments[0 if is_folder else 1], number)
            source = file if is_folder else _locate(arguments[0], None)
        except (OSError, ValueError, TypeError):
            return
        if is_folder:
            if not os.path.lexists(file):
                self._add_made(file)
        elif source in self._made:
            self._add_made(file)
        elif source in self._own or self._is_in_made(source):
            self._own.add(file)
        else:
            self._note_path(DependencyKind.CONTENTS, source)

    def _note_listing(self, event: str, path: Any) -> None:
        caller = find_caller()
        names, is_metadata = list_python_callers(caller)
        if is_metadata or (caller is not None and caller.f_code.co_filename.startswith("<frozen importlib")):
            return  # recorded as a distribution, or as the place of a module
        kind = DependencyKind.FOLDER if names or event == "os.listdir" else DependencyKind.ENTRIES
        self._note_path(kind, path)

    def _note_unseen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" and arguments[0] in (":memory:", b":memory:", ""):
            return
        frame = find_starter(find_caller())
        if frame is None:
            return
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        dependency = f"{DependencyKind.UNSEEN.value}{place} {_UNSEEN[event]}"
        if dependency not in self._digests:
            self._digests[dependency] = RECORDED
            note = f"ligerdiag: not kept in the cache, because {place} {_UNSEEN[event]} ({event})\n"
            self._notes.append(note)
            os.write(2, note.encode(errors="replace"))  # not `sys.stderr`, which the user's code may have replaced

    def _note_path(
        self, kind: DependencyKind, path: Any, *, folder: int | None = None, is_written: bool = False
    ) -> None:
        if kind is DependencyKind.CONTENTS and isinstance(path, int):
            return  # an open file
        if not is_read_by_user(find_caller()):
            return
        try:
            file = _locate(path, folder)
        except (OSError, ValueError, TypeError):
            return
        if file.endswith(".pyc") and not is_written:
            file = _find_source(file)
        if self._is_in_made(file):
            real = _resolve(file)
            if self._is_in_made(real) or real == file:
                return
            file = real  # through a link to something that was there before
        dependency = f"{kind.value}{file}"
        if file in self._own or dependency in self._digests or file.startswith(_PSEUDO):
            return
        if is_written:
            self._own.add(file)
        elif is_project_file(file):
            self._digests[dependency] = compute_digest(dependency)

    def _add_made(self, folder: str) -> None:
        parent, name = os.path.split(folder)
        self._made |= {folder, os.path.join(_resolve(parent), name)}

    def _is_in_made(self, file: str) -> bool:
        if not self._made:
            return False
        last = ""
        while file not in self._made and file != last:
            last, file = file, os.path.dirname(file)
        return file in self._made

    def _watch_stat(self, stat: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        @wraps(stat)
        def watched(path: Any, *, dir_fd: int | None = None, **options: Any) -> os.stat_result:
            kind = _choose_kind(find_caller())
            if kind is not None:
                self._note_path(kind, path, folder=dir_fd)
            return stat(path, dir_fd=dir_fd, **options)

        return watched

    def _watch_access(self, access: Callable[..., bool]) -> Callable[..., bool]:
        @wraps(access)
        def watched(path: Any, mode: int, *, dir_fd: int | None = None, **options: Any) -> bool:
            self._note_path(DependencyKind.ACCESS, path, folder=dir_fd)
            return access(path, mode, dir_fd=dir_fd, **options)

        return watched

    def _watch_link(self, read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)
        def watched(path: Any, **options: Any) -> Any:
            if not list_python_callers(find_caller())[0] & _RECORDED_OTHERWISE:
                self._note_path(DependencyKind.LINK, path, folder=options.get("dir_fd"))
            return read(path, **options)

        return watched

    def _watch_realpath(self, resolve: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(resolve)
        def watched(filename: Any, **options: Any) -> Any:
            if "getmodule" not in list_python_callers(find_caller())[0]:  # it resolves the files of all modules
                self._note_path(DependencyKind.LINK, filename)
            return resolve(filename, **options)

        return watched

    def _watch_fstat(self, stat: Callable[[int], os.stat_result]) -> Callable[[int], os.stat_result]:
        @wraps(stat)
        def watched(fd: int) -> os.stat_result:
            if not list_python_callers(find_caller())[0]:  # Python's library asks it about files that it has opened
                self._note_path(DependencyKind.STATUS, fd)
            return stat(fd)

        return watched

    def _watch_open(self, opens: Callable[..., int]) -> Callable[..., int]:
        @wraps(opens)
        def watched(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if dir_fd is None:
                return opens(path, flags, mode)
            self._note_path(DependencyKind.CONTENTS, path, folder=dir_fd, is_written=bool(flags & _WRITES))
            self._thread.knows_folder = True  # the audit event does not say to which folder the path is relative
            try:
                return opens(path, flags, mode, dir_fd=dir_fd)
            finally:
                self._thread.knows_folder = False

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
        return name in self._given.variables and name not in self._own and is_own_code(find_caller())

    def read_given(self, name: str) -> str | None:
        """Returns the value of an environment variable in the process that started this worker. The answer then depends
        on it.
        """
        value = self._given.variables[name] if name in self._given.variables else os.environ.get(name)
        self._digests.setdefault(f"{DependencyKind.VARIABLE.value}{name}", digest_text(value))
        return value

    def _watch_names(self, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        def names(mapping: Any) -> Iterator[Any]:
            found = list(iterate(mapping))
            if (mapping is os.environ or mapping is os.environb) and is_own_code(find_caller()):
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
        """Sets `sys.argv` for the rest of the process. Does nothing in a process that is not a worker.

        argv: the arguments; None for those of the process that started this worker. The answer then depends on them if
        the user's code reads them.
        """
        if not self._is_worker:
            return
        values = list(self._given.argv or ()) if argv is None else list(argv)
        sys.argv = values
        if argv is not None:
            return

        def get(_: ModuleType) -> list[str]:
            if is_read_by_user(find_caller()):
                if self._given.argv is None:
                    raise RuntimeError(
                        "`sys.argv` is too long for ligerdiag to pass it to the process that compiles: shorten the "
                        "command line"
                    )
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
        if is_read_by_user(find_caller()):
            self._digests[dependency] = digest_text(None if value is None else os.fsdecode(value))

    def _watch_write(self, write: Callable[..., None]) -> Callable[..., None]:
        def change(mapping: Any, key: Any, *value: Any) -> None:
            write(mapping, key, *value)
            if mapping is os.environ or mapping is os.environb:
                self._own.add(os.fsdecode(key))

        return change


class _ImportWatch(MetaPathFinder):
    """A finder that finds nothing, in front of all others: Python asks it first for each module that is not loaded."""

    def __init__(self, reads: OutsideReads) -> None:
        self._reads = reads

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del target
        self._reads.note_search(fullname, path)

    def find_distributions(self, context: Any) -> tuple[()]:
        """Gets the searches of `importlib.metadata`, which calls this method of each import finder. Finds nothing
        itself.
        """
        self._reads.note_distribution(context.name, context.path)
        return ()


OUTSIDE_READS = OutsideReads()


def _count(mapping: Iterable[Any]) -> int:
    return sum(1 for _ in mapping)  # `list` would ask for the length


def _choose_kind(caller: FrameType | None) -> DependencyKind | None:
    """Returns the part of a file's status that the caller wants to know; None if another dependency has it."""
    names, is_metadata = list_python_callers(caller)
    if is_metadata or names & _RECORDED_OTHERWISE:
        return None
    if names & _ASK_PRESENCE:
        return DependencyKind.PRESENCE
    if names & _ASK_LINK:
        return DependencyKind.LINK
    return DependencyKind.STATUS if names <= _PASS_STATUS else DependencyKind.PRESENCE


def _locate(path: Any, folder: int | None) -> str:
    """Returns the absolute path, without following links. path: a path or an open file. folder: the open folder to which the
    path is relative; None means the current one.
    """
    if isinstance(path, int):
        return _find_opened(path)
    name = os.fsdecode(cast("str", path))
    return os.path.abspath(name if folder is None else os.path.join(_find_opened(folder), name))


def _find_opened(number: int) -> str:
    path = f"/proc/self/fd/{number}"
    found = _resolve(path)
    if not os.path.exists(found):
        raise FileNotFoundError(path)
    return found


def _find_source(bytecode: str) -> str:
    """Returns the source of a file of bytecode; the file itself if it has none."""
    try:
        source = source_from_cache(bytecode)
    except (ValueError, NotImplementedError):
        return bytecode
    return source if os.path.isfile(source) else bytecode


def _make_absolute(path: Sequence[str]) -> list[str]:
    return [os.path.abspath(entry) for entry in path]
