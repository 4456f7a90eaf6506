"""The state of the things outside of ligerdiag on which a kept answer depends: files, and environment variables.

A dependency has a name and a digest. The name is the absolute path of a file, or `env:` and the name of an environment
variable. The digest is empty if there is no such regular file or variable.
"""

import os
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG

from ligerdiag.artifacts.artifact import compute_file_sha256

_VARIABLE = "env:"
LARGE = 64 << 20
"""Bytes above which a file is identified by its size and the time of its last change, not by its contents."""


def name_variable(name: str) -> str:
    """Returns the name of the dependency on this environment variable."""
    return f"{_VARIABLE}{name}"


def is_file(dependency: str) -> bool:
    """Returns whether the dependency of this name is a file."""
    return not dependency.startswith(_VARIABLE)


def digest_text(text: str | None) -> str:
    """Returns the digest of an environment variable's value; empty for None, which means that it is not set."""
    return "" if text is None else sha256(text.encode(errors="surrogateescape")).hexdigest()


def compute_digest(dependency: str) -> str:
    """Returns the present digest of the dependency of this name."""
    if not is_file(dependency):
        return digest_text(os.environ.get(dependency.removeprefix(_VARIABLE)))
    path = Path(dependency)
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            return ""  # opening a pipe would wait for its other end
        if status.st_size > LARGE:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return compute_file_sha256(path)
    except (OSError, ValueError):
        return ""
