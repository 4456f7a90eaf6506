"""The text of a line of the user's program: the only place where a report reads sources.

The path comes from an artifact, which is not trusted: a dump may name `/etc/passwd`, or a link to it. So a file is read
only

1. below a folder that the user named, or that holds the user's own code (`source_roots`), once every link is resolved;
2. when it is a regular `.py` file of at most `MAX_FILE_BYTES`.
"""

import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache

from ligerdiag.findings import SourceLine
from ligerdiag.report.source_roots import is_below

MAX_FILE_BYTES = 2 << 20
MAX_LINE_CHARACTERS = 160


def load_source_text(source: SourceLine, roots: Sequence[str]) -> str:
    """Returns the stripped line, at most `MAX_LINE_CHARACTERS`; empty when it is not known, not here or not to be
    read."""
    if source.line < 1:
        return ""
    lines = load_source_lines(source.file, roots)
    if source.line > len(lines):
        return ""
    text = lines[source.line - 1].strip()
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"


def compute_place(source: SourceLine) -> str:
    """`file:line`, relative to the current directory when the file is below it."""
    file = compute_near(source.file)
    return f"{file}:{source.line}" if source.line > 0 else file


def parse_place(place: str) -> SourceLine:
    """Parses the output of `compute_place`."""
    file, _, line = place.rpartition(":")
    is_line = bool(file) and line.isdecimal() and len(line) < 10
    return SourceLine(file=file, line=int(line)) if is_line else SourceLine(file=place, line=0)


def compute_near(text: str) -> str:
    """Returns the text, each path in it that is below the current directory relative to it."""
    try:
        here = os.getcwd().rstrip(os.sep) + os.sep
    except OSError:  # the folder is gone
        return text
    return re.sub(rf"(^|[\s`(]){re.escape(here)}", r"\1", text)


def load_source_lines(file: str, roots: Sequence[str]) -> tuple[str, ...]:
    """Returns the lines of a file; none where 1 and 2 above say no. roots: real paths of folders."""
    path = _find_readable(file, roots)
    return _load_lines(path) if path else ()


def read_source(file: str, roots: Sequence[str]) -> bytes | None:
    """Returns the contents of the file; None if 1 and 2 above forbid reading it. roots: real paths of folders."""
    path = _find_readable(file, roots)
    return _read(path) if path else None


def _find_readable(file: str, roots: Sequence[str]) -> str:
    """Returns the real path of a `.py` file below a root; empty for another one."""
    try:
        path = os.path.realpath(file)
    except (OSError, ValueError):
        return ""
    return path if path.endswith(".py") and is_below(path, roots) else ""


@lru_cache(maxsize=64)
def _load_lines(path: str) -> tuple[str, ...]:
    data = _read(path)
    return () if data is None else tuple(data.decode("utf-8", "replace").split("\n"))


def _read(path: str) -> bytes | None:
    """path: a real one; what has been made a link since is not followed."""
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
