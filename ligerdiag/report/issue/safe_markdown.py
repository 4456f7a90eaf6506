"""Renders untrusted text as Markdown: names out of dumps, programs and HLO never act as markup, and carry no folders."""

import re

from ligerdiag.report.markdown import render_code
from ligerdiag.text import compute_printable

_CODE = re.compile(r"`([^`]*)`")
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:'()%+=\-]*")
_LINK = re.compile(r"www\.|:[^ ]")
_FOLDERS = re.compile(r"(?:[^\s`'\"()=:,]*/)+(?=[^\s/`'\"()]+\.py\b)")


def render_prose(text: str) -> str:
    """Returns a sentence whose names are in backticks as Markdown: each name becomes a code span.

    If anything outside of the names could act as markup, a link or a mention, the whole sentence becomes one code span.
    """
    bare = strip_folders(compute_printable(text))
    if not is_harmless(_CODE.sub("", bare)) or "`" in _CODE.sub("", bare):
        return render_code(bare)
    return _CODE.sub(lambda found: render_code(found[1]), bare)


def is_harmless(text: str) -> bool:
    """Returns whether Markdown leaves the text as it is, so that it needs no escapes."""
    return bool(_PLAIN.fullmatch(text)) and not _LINK.search(text)


def strip_folders(text: str) -> str:
    """Returns the text with the names of Python files instead of their paths, which nobody else has."""
    return _FOLDERS.sub("", text)
