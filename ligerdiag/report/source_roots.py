"""The folders that hold the user's sources: a report reads no other file.

Files and folders count by their real paths: a link does not lead out of the folders that the user named.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ligerdiag.errors import InputError

_MARKS = (".git", ".hg", ".jj", ".svn")
"""Entries of a folder that mark it as a repository."""


def find_usual_root(directory: Path) -> str:
    """Returns the real path of the repository that `directory` is in, or of the directory itself where it is in
    none."""
    here = directory.resolve()
    return str(next((folder for folder in (here, *here.parents) if any((folder / m).exists() for m in _MARKS)), here))


def resolve_roots(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns the real paths, each once; InputError for what is no folder."""
    roots: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"expected a folder for --source-root but got `{folder}`")
        roots.append(str(folder.resolve()))
    return tuple(dict.fromkeys(roots))


def list_foreign_folders(paths: Iterable[Path]) -> tuple[str, ...]:
    """Real paths of the folders whose files came with what is inspected: each folder, and the folder of each file."""
    return tuple(dict.fromkeys(os.path.realpath(path if path.is_dir() else path.parent) for path in paths))


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Returns whether a real path is one of the roots, which are real paths, or lies below one."""
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
