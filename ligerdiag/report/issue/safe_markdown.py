"""Renders untrusted text as Markdown. Names from dumps, programs and HLO never act as markup, and paths lose
their folders.
"""

import re

from ligerdiag.report.markdown import render_code
from ligerdiag.source_text import strip_folders
from ligerdiag.text import compute_printable

_CODE = re.compile(r"`([^`]*)`")
_NAME = re.compile(r"%\w(?:[\w.$\-]*[\w$])?(?:\{[\d,]*\})?|[\w\-]+\.py:\d+|\{[\d,]*\}")
"""A name that messages have without backticks: an instruction, a line of a file, the place of a value in a tuple."""
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:'()%+=\-]*")
_LINK = re.compile(r"www\.|:[^ ]")


def render_prose(text: str) -> str:
    """Returns a sentence as Markdown, with each name in backticks as a code span.

    If anything outside of the backticks could act as markup, a link or a mention, the whole sentence becomes one code
    span.
    """
    bare = strip_folders(compute_printable(text))
    parts = _CODE.split(bare)
    words, names = [_NAME.split(part) for part in parts[::2]], [_NAME.findall(part) for part in parts[::2]]
    if not all(is_harmless(word) for some in words for word in some):
        return render_code(bare)
    plain = [
        "".join(map("".join, zip(some, (*map(render_code, found), ""), strict=True)))
        for some, found in zip(words, names, strict=True)
    ]
    coded = [*map(render_code, parts[1::2]), ""]
    return "".join(map("".join, zip(plain, coded, strict=True)))


def is_harmless(text: str) -> bool:
    """Returns whether Markdown leaves the text unchanged, so that it needs no escapes."""
    return bool(_PLAIN.fullmatch(text)) and not _LINK.search(text)
