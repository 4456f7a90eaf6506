"""Finds the source of code that no file holds (a notebook's cell, `python -c`, a prompt), and keeps it for the report.

The text is taken in the caller's process, while the function is pickled: only Python's `linecache` there knows it. It is
written beside the function file, in which the pickled function goes to a worker (see `live_functions`). The folder of the
texts is one of the report's source roots, below which ligerdiag may read the user's source. So every process that reads
source lines finds the text (`source_text.find_kept_text`).

Several pieces of code may have the file name `<string>`. So a text counts as the source of a piece of code only if compiling
the text makes the same code.
"""

import linecache
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType

from ligerdiag.artifacts.scratch_folders import replace_file
from ligerdiag.errors import InputError
from ligerdiag.source_text import MAX_FILE_BYTES, TEXTS_SUFFIX, name_kept_text

MAX_TEXTS = 64
"""The largest number of texts that are kept for one function. If there are more, those found first are kept."""
MAX_BYTES = MAX_FILE_BYTES
"""The largest number of bytes that all texts of one function may have together."""

_SHARED = ("<string>", "<stdin>")
"""File names that Python gives to more than one piece of code."""
_GENERATED = "__create_fn__."
"""Start of the names of the methods that `dataclasses` makes from a `<string>` of its own."""


def find_cell_text(code: CodeType) -> str | None:
    """Returns the text that contains the source of the code, such as a notebook's cell. Returns an empty string if the
    text is unknown. Returns None if the code is in a file or is not the user's.
    """
    file = code.co_filename
    if code.co_qualname.startswith(_GENERATED) or file.startswith("<frozen ") or os.path.isfile(file):
        return None
    text = "".join(linecache.getlines(file))
    if file not in _SHARED:
        return text
    return next((one for one in (text, _find_command()) if one and _holds(one, code)), "")


def add_cell_text(texts: dict[str, str], code: CodeType) -> None:
    """Adds the text that contains the code's source to `texts`, under the name of the code's file. If that name already
    has a different text, the entry becomes empty, because one name cannot have two texts.
    """
    text, file = find_cell_text(code), code.co_filename
    if text is not None:
        texts[file] = text if texts.get(file, text) == text else ""


def write_cell_texts(path: Path, texts: Mapping[str, str]) -> None:
    """Writes the texts into a folder beside `path`, the file in which a live function is sent to a worker. Raises
    InputError if it cannot write.

    texts: name of the code's file, such as `<string>`, to its source. Empty texts are left out, and so are texts beyond
    `MAX_TEXTS` and `MAX_BYTES`.
    """
    room, folder = MAX_BYTES, path.with_suffix(TEXTS_SUFFIX)
    for file, text in list(texts.items())[:MAX_TEXTS]:
        data = text.encode("utf-8", "replace")
        room -= len(data)
        if not data or room < 0:
            continue
        try:
            folder.mkdir(exist_ok=True, mode=0o700)
            replace_file(folder / name_kept_text(file), data)
        except OSError as error:
            raise InputError(f"cannot write `{folder}`: {error.strerror or error}") from error


def _find_command() -> str:
    """Returns the program of `python -c`; empty if this process runs another."""
    words = list(sys.orig_argv)
    return words[words.index("-c") + 1] if "-c" in words[:-1] else ""


def _holds(text: str, code: CodeType) -> bool:
    """Whether compiling the text makes this code, at the same line."""
    try:
        left = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    while left:
        one = left.pop()
        if one == code:
            return True
        left += [inner for inner in one.co_consts if isinstance(inner, CodeType)]
    return False
