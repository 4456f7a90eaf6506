"""The text of a line of the user's program, when the file is here.

The path comes from an artifact, which somebody else may have written: read little, trust nothing.
"""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from ligerdiag.findings import SourceLine

MAX_FILE_BYTES = 2 << 20
MAX_LINE_CHARACTERS = 160


def load_source_text(source: SourceLine) -> str:
    """The stripped line, at most `MAX_LINE_CHARACTERS`; empty when it is not known or not here.

    Only regular `.py` files of at most `MAX_FILE_BYTES` are opened.
    """
    if source.line < 1:
        return ""
    lines = load_source_lines(source.file)
    if source.line > len(lines):
        return ""
    text = lines[source.line - 1].strip()
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"


def compute_place(source: SourceLine) -> str:
    """`file:line`, relative to the current directory when the file is below it."""
    file = compute_near(source.file)
    return f"{file}:{source.line}" if source.line > 0 else file


def parse_place(place: str) -> SourceLine:
    """What `compute_place` made a text of."""
    file, _, line = place.rpartition(":")
    is_line = bool(file) and line.isdecimal() and len(line) < 10
    return SourceLine(file=file, line=int(line)) if is_line else SourceLine(file=place, line=0)


def compute_near(text: str) -> str:
    """The text, each path in it that is below the current directory relative to it."""
    here = os.getcwd().rstrip(os.sep) + os.sep
    return re.sub(rf"(^|[\s`(]){re.escape(here)}", r"\1", text)


def load_source_lines(file: str) -> tuple[str, ...]:
    """The lines of a `.py` file within the bounds of `load_source_text`; none where it is no such file."""
    return _load_lines(os.path.abspath(file)) if "\0" not in file else ()


@lru_cache(maxsize=64)
def _load_lines(file: str) -> tuple[str, ...]:
    path = Path(file)
    if path.suffix != ".py":
        return ()
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return ()
        return tuple(path.read_text(encoding="utf-8", errors="replace").split("\n"))
    except (OSError, ValueError):
        return ()
