"""Text that is safe to print on a terminal: no escape sequence, no control character, one line.

Names of cases, outputs, kernels and instructions come from files that are not trusted.
"""

import re
import unicodedata

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and the other strings: title, clipboard, links
    r"|[ -/]*[0-~]"  # two characters
    r")?"
)

_COMMAND = re.compile(r"^(\s*)::")
_MARKED_COMMAND = re.compile(r"(##)((?:\w*)\[)")


def compute_printable(text: str) -> str:
    """`text` on one line without escape sequences, control characters and direction marks; blanks become spaces."""
    if text.isprintable():
        return text
    bare = _ESCAPE_SEQUENCE.sub("", text)
    return "".join(" " if c.isspace() else c for c in bare if c.isprintable() or c.isspace())


def compute_without_commands(text: str) -> str:
    """Returns a line that no runner of a workflow takes for a command of it.

    GitHub's looks for `::name …::` at the start of a line, behind blanks, and, as Azure's, for `##[name]` or `##vso[name]`
    anywhere. A space in its sign makes a command text.
    """
    text = _MARKED_COMMAND.sub(r"\1 \2", text)
    return _COMMAND.sub(r"\1: :", text)


def compute_cells(text: str) -> int:
    """Columns that printable `text` takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
