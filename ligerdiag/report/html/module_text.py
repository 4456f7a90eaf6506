"""The whole module's text, small enough to be part of a page: the browser unpacks it on request."""

import gzip
from base64 import b64encode
from collections.abc import Sequence

from ligerdiag.report.printable import compute_printable

LEVEL = 6
"""Of gzip: a module of 150,000 instructions takes a second, and a few megabytes."""


def compute_packed(lines: Sequence[str]) -> str:
    """UTF-8 as gzip as base64, the same for the same lines; a line holds no control character."""
    text = "\n".join(map(compute_printable_line, lines))
    return b64encode(gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0)).decode("ascii")


def compute_printable_line(line: str) -> str:
    """Returns the same on one line, with the blanks at its front."""
    bare = line.lstrip(" ")
    return " " * (len(line) - len(bare)) + compute_printable(bare)
