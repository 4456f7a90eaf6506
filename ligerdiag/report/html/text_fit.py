"""Names of instructions in a few short lines: an SVG breaks no lines, and no text is measured on the server."""

import re

_BREAKS = re.compile(r"(?<=[_.\-/\]\[,])")


def compute_lines(text: str, columns: int, lines: int) -> tuple[str, ...]:
    """`text` broken after `_`, `.` and the like into at most `lines` lines of at most `columns` characters.

    What does not fit is left out of the middle, for the end of a name tells `fusion.1` from `fusion.2`.
    """
    whole = _break(text, columns)
    if len(whole) <= lines:
        return whole
    room = columns * lines
    while room > columns:
        shortened = _break(compute_shortened(text, room), columns)
        if len(shortened) <= lines:
            return shortened
        room -= 1
    return (compute_shortened(text, columns),)


def compute_shortened(text: str, columns: int) -> str:
    """At most `columns` characters, with an ellipsis in the middle."""
    if len(text) <= columns:
        return text
    end = max(1, (columns - 1) // 2)
    return f"{text[: columns - 1 - end]}…{text[-end:]}"


def _break(text: str, columns: int) -> tuple[str, ...]:
    lines = [""]
    for piece in (word[at : at + columns] for word in _BREAKS.split(text) for at in range(0, len(word), columns)):
        if len(lines[-1]) + len(piece) <= columns:
            lines[-1] += piece
        else:
            lines.append(piece)
    return tuple(lines)
