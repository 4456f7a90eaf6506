"""Reads protobuf's text format into lines with one field each, so that a field can be found and removed by its line.

A parser of protobuf names the line of a field that it refuses. Each line that `split_fields` returns has one field, or the
beginning or the end of one message. So the number of the line identifies the refused field.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ligerdiag.errors import InputError

_TOKEN = re.compile(r'\s*(?P<token>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[\w.+-]+|[{}<>\[\]:,;])')
_CLOSING = {"{": "}", "<": ">", "[": "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLine:
    """One line of a text in protobuf text format. A field has one line. A field that is a message has several: its first
    line, the lines of its fields, and its last line.
    """

    text: str
    path: str
    """Path of the field, such as `gpu_device_info.name`; a message's last line has the path of the message."""
    value: str
    """The value as written, a string with its quotes. Empty for the first and the last line of a message; the fields in
    between have values of their own.
    """
    lines: int
    """Number of lines of the field from this one on; 0 for the last line of a message."""


@lru_cache(maxsize=8)  # a compile asks four times
def strip_comments(description: str) -> str:
    """Returns a target's description without comments, blank lines and indentation. A `#` in quotes begins no comment."""
    lines = (re.sub(r'^((?:[^"#]|"[^"]*")*)#.*$', r"\1", line).strip() for line in description.splitlines())
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=8)  # a check asks three times
def split_fields(description: str) -> tuple[FieldLine, ...]:
    """Returns the lines of a target's description, without comments. Raises InputError if the description is not in protobuf
    text format.
    """
    tokens = tuple(_split(strip_comments(description)))
    lines, end = _read_fields(tokens, 0, "", "")
    if end != len(tokens):
        raise InputError(f"expected a field in the target description but got `{tokens[end]}`")
    return tuple(lines)


def render_fields(lines: Sequence[FieldLine]) -> str:
    """Returns the lines as text, each with its line end."""
    return "".join(f"{line.text}\n" for line in lines)


def drop_field(lines: Sequence[FieldLine], number: int) -> tuple[FieldLine, ...]:
    """Returns the lines without one field. number: the line at which the field begins, counted from 0."""
    before = (*lines[:number],)
    return (*before, *lines[number + max(lines[number].lines, 1) :])


def find_value(lines: Sequence[FieldLine], path: str) -> str:
    """Returns the value of the first field at a path such as `gpu_device_info.name`, without quotes; '' if there is none."""
    return next((line.value.strip("\"'") for line in lines if line.path == path and line.value), "")


def find_number(lines: Sequence[FieldLine], path: str) -> int:
    """Returns the value of the first field at a path, as an integer. Returns 0 if there is none, or if it is no integer."""
    value = find_value(lines, path)
    return int(value) if re.fullmatch(r"-?\d+", value) else 0


def _split(description: str) -> Iterator[str]:
    position, text = 0, description.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InputError(
                f"expected protobuf text format in the target description but got `{text[position:][:20]}`"
            )
        yield match["token"]
        position = match.end()


def _read_fields(tokens: tuple[str, ...], position: int, path: str, indent: str) -> tuple[list[FieldLine], int]:
    """Returns the lines of the fields from `position` to the end of their message, and the position of that end.

    path: that of the message, with which the paths of its fields begin.
    """
    lines: list[FieldLine] = []
    while position < len(tokens) and tokens[position] not in _CLOSING.values():
        name = tokens[position]
        field = f"{path}.{name}" if path else name
        position += 1
        if position < len(tokens) and tokens[position] == ":":
            position += 1
        if position == len(tokens):
            raise InputError(f"expected a value of `{field}` in the target description but got the end of the text")
        if tokens[position] in ("{", "<"):
            inner, end = _read_fields(tokens, position + 1, field, f"{indent}  ")
            _expect(tokens, end, _CLOSING[tokens[position]])
            head = FieldLine(text=f"{indent}{name} {{", path=field, value="", lines=len(inner) + 2)
            lines += [head, *inner, FieldLine(text=f"{indent}}}", path=field, value="", lines=0)]
        else:
            end = _find_value_end(tokens, position)
            value = " ".join(tokens[position : end + 1])
            lines.append(FieldLine(text=f"{indent}{name}: {value}", path=field, value=value, lines=1))
        position = end + 1
        if position < len(tokens) and tokens[position] in (",", ";"):
            position += 1
    return lines, position


def _find_value_end(tokens: tuple[str, ...], position: int) -> int:
    """Returns the position of the last token of the value at `position`: the bracket that closes a list, or the value
    itself.
    """
    if tokens[position] != "[":
        return position
    end = position
    while end < len(tokens) and tokens[end] != "]":
        end += 1
    _expect(tokens, end, "]")
    return end


def _expect(tokens: tuple[str, ...], position: int, token: str) -> None:
    found = tokens[position] if position < len(tokens) else "its end"
    if found != token:
        raise InputError(f"expected `{token}` in the target description but got `{found}`")
