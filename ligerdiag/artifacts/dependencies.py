"""Computes digests of the files, folders and environment variables on which an answer in the cache depends.

A dependency has a name and a digest. The name is an absolute path, for the contents of a file, or a prefix and a name:
`env:` for the value of an environment variable, `argv:` for the command line, `exists:` for the presence of a file or
folder, `folder:` for the names in a folder. The digest is empty if there is no such file, variable or folder.
"""

import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG

from ligerdiag.artifacts.artifact import compute_file_sha256


class DependencyKind(StrEnum):
    """The kinds of dependencies of an answer in the cache. The value of a kind is the prefix of a dependency's name; answers
    in the cache contain these prefixes.
    """

    CONTENTS = ""
    VARIABLE = "env:"
    COMMAND_LINE = "argv:"
    PRESENCE = "exists:"
    FOLDER = "folder:"


_OF_PROCESS = (DependencyKind.VARIABLE, DependencyKind.COMMAND_LINE)
LARGE = 64 << 20
"""Bytes above which a file is identified by its size and the time of its last change, not by its contents."""


def digest_text(text: str | None) -> str:
    """Returns the digest of an environment variable's value; empty for None, which means that it is not set."""
    return "" if text is None else sha256(text.encode(errors="surrogateescape")).hexdigest()


def compute_digest(dependency: str) -> str:
    """Returns the present digest of the file, folder or variable that the dependency names."""
    kind, name = _split(dependency)
    try:
        match kind:
            case DependencyKind.VARIABLE:
                return digest_text(os.environ.get(name))
            case DependencyKind.COMMAND_LINE:
                return digest_text(json.dumps(list(map(str, sys.argv))))
            case DependencyKind.PRESENCE:
                return "yes" if os.path.lexists(name) and os.path.exists(name) else ""
            case DependencyKind.FOLDER:
                return digest_text("\n".join(sorted(filter(_is_listed, os.listdir(name)))))
            case DependencyKind.CONTENTS:
                return _digest_file(Path(name))
    except (OSError, ValueError):
        return ""


def is_kept_in_memory(dependency: str) -> bool:
    """Returns whether the dependency is a part of this process, which may change between two questions of one run."""
    return _split(dependency)[0] in _OF_PROCESS


def move_path(dependency: str, move: Callable[[str], str]) -> str:
    """Returns the name of the dependency with another path, such as one relative to a project's folder."""
    kind, name = _split(dependency)
    return dependency if kind in _OF_PROCESS else f"{kind.value}{move(name)}"


def _split(dependency: str) -> tuple[DependencyKind, str]:
    for kind in DependencyKind:
        if kind.value and dependency.startswith(kind.value):
            return kind, dependency.removeprefix(kind.value)
    return DependencyKind.CONTENTS, dependency


def _is_listed(name: str) -> bool:
    return not name.startswith(".") and name != "__pycache__"


def _digest_file(path: Path) -> str:
    status = path.stat()
    if not S_ISREG(status.st_mode):
        return ""  # opening a pipe would wait for its other end
    if status.st_size > LARGE:
        return f"{status.st_size} bytes of {status.st_mtime_ns}"
    return compute_file_sha256(path)
