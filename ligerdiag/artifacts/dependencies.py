"""Computes digests of the files, folders and environment variables on which an answer in the cache depends.

A dependency has a name and a digest. The name is an absolute path, for the contents of a file, or a prefix of
`DependencyKind` and the name of a thing of that kind. The digest is empty if there is no such file, variable or folder.

For an import, the digest is of a text that says where Python would find the module or the installed distribution, and that
changes as soon as the answer would. Folders are searched as Python's `FileFinder` searches them: a package before a module,
an extension before a source, an earlier folder before a later one. Nothing is imported, so a process with another
`sys.path` gets the same text.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.metadata import DistributionFinder, MetadataPathFinder
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from ligerdiag.artifacts.artifact import compute_file_sha256
from ligerdiag.errors import is_project_file


class DependencyKind(StrEnum):
    """The kinds of dependencies of an answer in the cache. The value of a kind is the prefix of such a dependency's
    name.
    """

    CONTENTS = ""
    VARIABLE = "env:"
    COMMAND_LINE = "argv:"
    PRESENCE = "exists:"
    """Whether there is a file, a folder, another thing, or a link to nothing."""
    ACCESS = "access:"
    """Whether this process may read, write and execute a file."""
    STATUS = "status:"
    """Size, owner, permissions, and time of the last change of a file or folder."""
    LINK = "link:"
    """The file or folder to which a path leads through symbolic links."""
    FOLDER = "folder:"
    """The names in a folder, and which of them are folders and links."""
    ENTRIES = "entries:"
    """The names in a folder with the status of each."""
    IMPORT = "import:"
    """Where an import finds a module. The name has several lines: the module, and the searched folders."""
    DISTRIBUTION = "distribution:"
    """The version of an installed distribution. The name has several lines: the distribution, and the searched folders."""
    UNSEEN = "unseen:"
    """Something whose state nobody can look up, such as the answer of a started program. It never counts as unchanged."""


_OF_PROCESS = (DependencyKind.VARIABLE, DependencyKind.COMMAND_LINE)
LARGE = 64 << 20
"""Bytes above which a file is identified by its size and the time of its last change, not by its contents."""
RECORDED = "recorded"
"""The digest of an UNSEEN dependency when it is recorded; `compute_digest` never returns it for one."""
_SEARCHES = (DependencyKind.IMPORT, DependencyKind.DISTRIBUTION)
_WITHOUT_PATH = (*_OF_PROCESS, DependencyKind.UNSEEN)


def digest_text(text: str | None) -> str:
    """Returns the digest of an environment variable's value. The digest of None, a variable that is not set, is empty."""
    return "" if text is None else sha256(text.encode(errors="surrogateescape")).hexdigest()


def compute_digest(dependency: str) -> str:
    """Returns the present digest of the dependency with this name: a file, a folder or a variable."""
    kind, name = _split(dependency)
    try:
        match kind:
            case DependencyKind.VARIABLE:
                return digest_text(os.environ.get(name))
            case DependencyKind.COMMAND_LINE:
                return digest_text(json.dumps(list(map(str, sys.argv))))
            case DependencyKind.PRESENCE:
                return _describe_presence(name)
            case DependencyKind.ACCESS:
                asked = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK, "f": os.F_OK}
                return "".join(letter for letter, mode in asked.items() if os.access(name, mode))
            case DependencyKind.STATUS:
                return _describe_status(name)
            case DependencyKind.LINK:
                return _describe_link(name)
            case DependencyKind.FOLDER:
                return digest_text("\n".join(sorted(one + mark for one, mark in _list_entries(name))))
            case DependencyKind.ENTRIES:
                names = sorted(one for one, _ in _list_entries(name))
                return digest_text("\n".join(f"{one} {_describe_status(os.path.join(name, one))}" for one in names))
            case DependencyKind.IMPORT:
                module, *entries = name.split("\n")
                return search_module(module, entries)[0]
            case DependencyKind.DISTRIBUTION:
                distribution, *entries = name.split("\n")
                return search_distribution(distribution, entries)
            case DependencyKind.UNSEEN:
                return ""
            case DependencyKind.CONTENTS:
                return _digest_file(Path(name))
    except (OSError, ValueError):
        return ""


def is_kept_in_memory(dependency: str) -> bool:
    """Returns whether the dependency is a part of this process, which may change while the process runs."""
    return _split(dependency)[0] in _OF_PROCESS


def drop_unseen(dependencies: Mapping[str, str]) -> dict[str, str]:
    """Returns the dependencies whose state can be looked up again."""
    return {name: digest for name, digest in dependencies.items() if not name.startswith(DependencyKind.UNSEEN.value)}


def move_path(dependency: str, move: Callable[[str], str]) -> str:
    """Returns the dependency's name with another path, such as one relative to a project's folder. In a search path,
    the folders of Python and of installed packages stay absolute.
    """
    kind, name = _split(dependency)
    if kind in _WITHOUT_PATH:
        return dependency
    if kind in _SEARCHES:
        first, *entries = name.split("\n")
        return f"{kind.value}{'\n'.join((first, *(one if _is_foreign(one) else move(one) for one in entries)))}"
    return f"{kind.value}{move(name)}"


def _split(dependency: str) -> tuple[DependencyKind, str]:
    for kind in DependencyKind:
        if kind.value and dependency.startswith(kind.value):
            return kind, dependency.removeprefix(kind.value)
    return DependencyKind.CONTENTS, dependency


def _is_foreign(folder: str) -> bool:
    return os.path.isabs(folder) and not is_project_file(os.path.join(folder, "module.py"))


def _describe_presence(path: str) -> str:
    if os.path.isfile(path):
        return "file"
    if os.path.isdir(path):
        return "folder"
    if os.path.exists(path):
        return "other"
    return "link" if os.path.lexists(path) else ""


def _describe_status(path: str) -> str:
    own = os.lstat(path)
    try:
        status = os.stat(path)
    except OSError:  # a link to nothing
        status = own
    fields = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
    return " ".join(map(str, fields if own.st_mode == status.st_mode else (*fields, own.st_mode)))


def _describe_link(path: str) -> str:
    target, real = os.readlink(path) if os.path.islink(path) else "", os.path.realpath(path)
    return digest_text(f"{target}\n{real}") if target or real != path else ""


def _list_entries(folder: str) -> list[tuple[str, str]]:
    """Returns the names in the folder, each with a mark that says whether it is a folder or a link."""
    with os.scandir(folder) as entries:
        return [
            (one.name, "@" if one.is_symlink() else "/" if one.is_dir() else "")
            for one in entries
            if not one.name.startswith(".") and one.name != "__pycache__"
        ]


def _digest_file(path: Path) -> str:
    status = path.stat()
    if not S_ISREG(status.st_mode):
        return "folder" if S_ISDIR(status.st_mode) else ""  # opening a pipe would wait for its other end
    if status.st_size > LARGE:
        return f"{status.st_size} bytes of {status.st_mtime_ns}"
    return compute_file_sha256(path)


_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)
_CANDIDATES = (*(f"/__init__{suffix}" for suffix in _SUFFIXES), *_SUFFIXES)
_METADATA = (".dist-info", ".egg-info", ".egg-link")


def search_module(name: str, entries: Sequence[str]) -> tuple[str, int]:
    """Returns a text that says in which entry of a path Python finds the module. Also returns how many entries decide
    this. The text is empty if the module is in no entry.

    name: the part of the module's name after the last dot. entries: absolute paths of folders and zip files.
    """
    places: list[str] = []
    for number, entry in enumerate(entries):
        place = os.path.join(entry, name)
        is_folder = os.path.isdir(place)
        for candidate in _CANDIDATES if is_folder else _SUFFIXES:
            if os.path.isfile(f"{place}{candidate}"):
                return " ".join((*places, f"{number}{candidate}")), number + 1
        if is_folder:
            places.append(f"{number}/")  # a part of a namespace package, if no later folder has the module
        elif os.path.isfile(entry):
            places.append(f"{number}={compute_file_sha256(Path(entry))}")
    return " ".join(places), len(entries)


def search_distribution(name: str, entries: Sequence[str]) -> str:
    """Returns the version of the first distribution of that name in the entries of a path. Returns an empty string if
    there is none. For an empty name, returns the names of all metadata in the entries.
    """
    if name:
        context = DistributionFinder.Context(name=name, path=list(entries))
        found = next(iter(MetadataPathFinder.find_distributions(context)), None)
        return "" if found is None else f"version {found.metadata['Version']}"
    return "\n".join(sorted(one for entry in entries for one in _list_names(entry) if one.endswith(_METADATA)))


def _list_names(entry: str) -> list[str]:
    try:
        return os.listdir(entry)
    except OSError:
        return []
