"""From an operation of printed Triton IR to the line of the kernel's Python source.

MLIR prints `loc(#loc7)` behind an operation and says at the module's end what `#loc7` is: a line, a name with a line, a
line with the line that called it, or several of these. The innermost line that is in no installed package counts.
"""

import re
from collections.abc import Mapping, Sequence

from ligerdiag.findings import SourceLine

_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PART = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d+|(#loc\d*)')
_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3")
_MOST_PARTS = 64


def parse_places(text: str, lines: Sequence[str]) -> tuple[SourceLine | None, ...]:
    """Returns the place of each of these lines of the module `text`; None where it is not said."""
    definitions = dict(_DEFINITION.findall(text))
    return tuple(_find_place(line, definitions) for line in lines)


def _find_place(line: str, definitions: Mapping[str, str]) -> SourceLine | None:
    start = line.rfind(" loc(")
    if start < 0:
        return None
    found: list[SourceLine] = []
    pending, steps = [line[start:]], 0
    while pending and steps < _MOST_PARTS:
        steps += 1
        inner: list[str] = []
        for match in _PART.finditer(pending.pop()):
            file, number, name = match.groups()
            inner.append(definitions.get(name, "") if name else f'"{file}":{number}:0')
        if len(inner) == 1 and inner[0].startswith('"') and _PART.fullmatch(inner[0]):
            file, number, _ = inner[0].rsplit(":", 2)
            found.append(SourceLine(file=file[1:-1], line=int(number)))
        else:
            pending += reversed(inner)
    return next((place for place in found if not any(part in place.file for part in _LIBRARY)), next(iter(found), None))
