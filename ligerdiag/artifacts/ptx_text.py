"""Cuts one kernel out of a module of PTX."""

import re

from ligerdiag.errors import ArtifactError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*\.(?:loc|file|pragma)\b[^\n]*", re.DOTALL | re.MULTILINE)
"""Matches a comment, or a directive that ends with its line, such as `.loc`."""
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(")
_BRACE = re.compile(r"[{}]")


def cut_entry(ptx: str, entry: str) -> str:
    """Returns the definition of the function `entry`, without comments: from `.entry` to the closing brace of its body.

    Raises ArtifactError if the module has no such function or ends inside it.
    """
    text = _COMMENT.sub(" ", ptx)
    head = next((match for match in _ENTRY.finditer(text) if match[1] == entry), None)
    if head is None:
        raise ArtifactError(f"the PTX has no entry function `{entry}`")
    depth = 0
    for brace in _BRACE.finditer(text, head.end()):
        depth += 1 if brace[0] == "{" else -1
        if depth <= 0:
            break
    else:
        raise ArtifactError(f"the PTX ends inside of `{entry}`")
    return text[head.start() : brace.end()]
