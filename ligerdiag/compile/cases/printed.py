"""Records what the user's own Python code prints, apart from the output of XLA and other libraries.

XLA writes to the process's file descriptors, and Python's logging and warnings to `sys.stderr`; `print` writes to
`sys.stdout`. So a record contains the text written to `sys.stdout`; this text still reaches the worker's log, too.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ligerdiag.errors import LigerdiagError

MAXIMUM_PRINTED = 64 << 10
"""The largest number of characters that a record keeps. If a text is longer, the record keeps its beginning and says how
many characters are missing.
"""


class PrintRecord:
    """The text that Python code prints inside the context of `record_prints`."""

    def __init__(self) -> None:
        self.is_paused = False
        self._parts: list[str] = []
        self._room = MAXIMUM_PRINTED
        self._more = 0

    @property
    def text(self) -> str:
        """Returns the printed text. If it is too long, returns its beginning and a line that says how many characters
        are missing.
        """
        kept = "".join(self._parts)
        return f"{kept}\n... and {self._more} more characters\n" if self._more else kept

    def add(self, text: str) -> None:
        """Adds printed text, unless the record is paused."""
        if self.is_paused:
            return
        kept = text[: self._room]
        self._parts += [kept] if kept else []
        self._room -= len(kept)
        self._more += len(text) - len(kept)


class _Copying:
    """A text stream that passes everything on to another stream, and adds a copy of the written text to a record."""

    def __init__(self, stream: TextIO, record: PrintRecord) -> None:
        self._stream, self._record = stream, record

    def write(self, text: str) -> int:
        self._record.add(text)
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_open: list[PrintRecord] = []


@contextmanager
def record_prints() -> Generator[PrintRecord]:
    """Records what Python code prints inside the context. If a LigerdiagError leaves the context, its attribute
    `printed` gets the text printed so far.
    """
    record, before = PrintRecord(), sys.stdout
    copying = cast("TextIO", _Copying(before, record))
    sys.stdout = copying
    _open.append(record)
    try:
        yield record
    except LigerdiagError as error:
        error.printed = record.text
        raise
    finally:
        _open.remove(record)
        if sys.stdout is copying:  # the user's code may have put a stream of its own there
            sys.stdout = before


@contextmanager
def pause_prints() -> Generator[None]:
    """Stops the recording of prints inside the context. There, ligerdiag traces a function again whose prints are
    recorded already.
    """
    paused = [record for record in _open if not record.is_paused]
    for record in paused:
        record.is_paused = True
    try:
        yield
    finally:
        for record in paused:
            record.is_paused = False
