"""Reads lines of the user's program, but only from files below the folders of the user's sources.

The path comes from an artifact, which is not trusted: a dump may name `/etc/passwd`, or a link to it. So a file is read only
if it is a regular `.py` file of at most `MAX_FILE_BYTES`. Its real path must lie below a folder that the user named or that
holds the user's own code (`source_roots`).

Code without a file, such as a notebook's cell, has a name that is not a path. Its text may be kept in a folder: a root
whose name ends with `TEXTS_SUFFIX` holds the texts of one live function (`compile.cases.cell_texts`).
"""

import ast
import os
import re
import stat
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from ligerdiag.errors import InputError
from ligerdiag.model.findings import SourceLine

_MARKS = (".git", ".hg", ".jj", ".svn")
"""Names in a folder, any of which shows that the folder is a repository."""


def find_usual_root(directory: Path) -> str:
    """Returns the real path of the repository around `directory`, or of `directory` itself if there is none."""
    here = directory.resolve()
    return str(next((folder for folder in (here, *here.parents) if any((folder / m).exists() for m in _MARKS)), here))


def resolve_roots(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns the real paths of the folders, each once. Raises InputError for a path that is not a folder."""
    roots: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"expected a folder for --source-root but got `{folder}`")
        roots.append(str(folder.resolve()))
    return tuple(dict.fromkeys(roots))


def list_foreign_folders(paths: Iterable[Path]) -> tuple[str, ...]:
    """Returns the real paths of the inspected folders, and of the folders of the inspected files."""
    return tuple(dict.fromkeys(os.path.realpath(path if path.is_dir() else path.parent) for path in paths))


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Returns whether the path is one of the roots or lies below one. All paths must be real paths."""
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


MAX_FILE_BYTES = 2 << 20
MAX_LINE_CHARACTERS = 160


def load_source_text(source: SourceLine, roots: Sequence[str]) -> str:
    """Returns the text of a source line, stripped and of at most `MAX_LINE_CHARACTERS`.

    Empty if the line is unknown or missing, or if its file must not be read.
    """
    if source.line < 1:
        return ""
    lines = load_source_lines(source.file, roots)
    if source.line > len(lines):
        return ""
    text = lines[source.line - 1].strip()
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"


def compute_place(source: SourceLine) -> str:
    """Returns the place as `file:line`. The path is relative if the file is below the current directory."""
    return join_place(compute_near(source.file), source.line)


def join_place(file: str, line: int) -> str:
    """Returns `file:line`, such as `train.py:41`; only the file if the line number is unknown (0), and an empty text if the
    file is unknown, too.
    """
    return f"{file}:{line}" if file and line > 0 else file


def parse_place(place: str) -> SourceLine:
    """Returns the source line that `compute_place` wrote as the text `place`."""
    file, _, line = place.rpartition(":")
    is_line = bool(file) and line.isdecimal() and len(line) < 10
    return SourceLine(file=file, line=int(line)) if is_line else SourceLine(file=place, line=0)


def compute_near(text: str) -> str:
    """Returns the text with relative paths in place of absolute paths below the current directory."""
    try:
        here = os.getcwd().rstrip(os.sep) + os.sep
    except OSError:  # the folder is gone
        return text
    return re.sub(rf"(^|[\s`(]){re.escape(here)}", r"\1", text)


_FOLDERS = re.compile(r"(?:[^\s`'\"()=:,]*/)+(?=[^\s/`'\"()]+\.py\b)")


def strip_folders(text: str) -> str:
    """Returns the text with only the file's name in place of each path of a Python file.

    Paths differ between machines.
    """
    return _FOLDERS.sub("", text)


type _Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes: a notebook's process sees files in several states."""


def load_source_lines(file: str, roots: Sequence[str]) -> tuple[str, ...]:
    """Returns the lines of a file, or () if the file is outside of all `roots` and must not be read.

    roots: folders, without symbolic links.
    """
    path = _find_readable(file, roots)
    return _load_lines(path, _read_stamp(path)) if path else ()


def count_characters(line: str, column: int) -> int:
    """Returns the number of characters in the first `column` bytes of the line in UTF-8.

    Python counts columns in bytes.
    """
    return len(line.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))


def parse_source(file: str, roots: Sequence[str]) -> ast.Module | None:
    """Returns the syntax tree of a file, or None if the file is outside of all `roots` or is not Python."""
    path = _find_readable(file, roots)
    return _parse(path, _read_stamp(path)) if path else None


@lru_cache(maxsize=16)
def _parse(path: str, stamp: _Stamp) -> ast.Module | None:
    lines = _load_lines(path, stamp)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_source(file: str, roots: Sequence[str]) -> bytes | None:
    """Returns the contents of the file, or None if the file is outside of all `roots`."""
    path = _find_readable(file, roots)
    return _read(path) if path else None


def _find_readable(file: str, roots: Sequence[str]) -> str:
    """Returns the path of the file's kept text if a root has one, else the real path of a `.py` file below a root; "" for
    any other file.
    """
    kept = find_kept_text(file, roots)
    try:
        path = os.path.realpath(file)
    except (OSError, ValueError):
        return kept
    return kept or (path if path.endswith(".py") and is_below(path, roots) else "")


TEXTS_SUFFIX = ".cells"
"""Suffix of a folder that keeps the texts of code that is in no file, such as the cells of a notebook."""


def name_kept_text(file: str) -> str:
    """Returns the name of the file that keeps the text of code without a file, such as a notebook's cell.

    The file is in a folder of kept texts (`TEXTS_SUFFIX`). `file` is the name of the code, such as `<ipython-input-3>`.
    """
    return f"{sha256(file.encode('utf-8', 'replace')).hexdigest()}.py"


def find_kept_text(file: str, roots: Sequence[str]) -> str:
    """Returns the path of the file that keeps the text of code without a file, such as a notebook's cell.

    Empty if no root has such a file. `file` is the name of the code, such as `<ipython-input-3>`.
    """
    folders = [root for root in roots if root.endswith(TEXTS_SUFFIX)]
    paths = [os.path.join(folder, name_kept_text(file)) for folder in folders]
    return next((path for path in paths if os.path.isfile(path)), "")


def _read_stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _load_lines(path: str, stamp: _Stamp) -> tuple[str, ...]:
    data = _read(path)
    return () if data is None else tuple(data.decode("utf-8", "replace").split("\n"))


def _read(path: str) -> bytes | None:
    """Returns the bytes of a regular file; None for anything else. path: a real path, since links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        with open(descriptor, "rb", closefd=False) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_FILE_BYTES else None


def read_last_name(node: ast.expr) -> str:
    """Returns the last part of a dotted name in Python code, such as `zeros` of `jnp.zeros`; empty if the expression is no
    name.
    """
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
