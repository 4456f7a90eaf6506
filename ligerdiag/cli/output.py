"""A report's file: there as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from ligerdiag.errors import InputError


def require_writable(path: Path, option: str = "--output") -> None:
    """Raises InputError, before any work is done, when a report cannot be written to `path`."""
    if path.is_dir():
        raise InputError(f"expected a file for {option} but `{path}` is a directory")
    if not path.parent.is_dir():
        raise InputError(f"expected the directory of {option} to exist but `{path.parent}` does not")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"expected to be allowed to write to `{path.parent}` for {option}")


def write_atomically(path: Path, text: str) -> None:
    """Writes `text` as UTF-8 beside `path` and moves it there; a special file such as a pipe is written to directly.

    Raises InputError when the disk says no.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        umask = os.umask(0)
        os.umask(umask)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"expected to write `{path}` but: {error.strerror or error}") from error
