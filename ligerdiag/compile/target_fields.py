"""Target descriptions for an older XLA: without the fields that its `GpuTargetConfigProto` does not know yet.

A description is protobuf text format, and XLA refuses one with a field it does not know. Only fields that this XLA
never reads are taken away.
"""

import re
from collections.abc import Collection, Iterator

from ligerdiag.compile.target import strip_comments
from ligerdiag.errors import InputError

_TOKEN = re.compile(r'\s*(?P<token>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[\w.+-]+|[{}<>\[\]:,;])')
_CLOSING = {"{": "}", "<": ">", "[": "]"}


def drop_fields(description: str, unknown: Collection[str]) -> str:
    """Returns the description, free of comments, without the fields at these paths, such as `gpu_device_info.name`.

    One field a line. Unchanged where `unknown` is empty. Raises InputError where it is not protobuf text format.
    """
    if not unknown:
        return description
    tokens = tuple(_split(strip_comments(description)))
    lines, end = _keep_fields(tokens, 0, "", frozenset(unknown))
    if end != len(tokens):
        raise InputError(f"expected a field in the target description but got `{tokens[end]}`")
    return "".join(f"{line}\n" for line in lines)


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


def _keep_fields(tokens: tuple[str, ...], position: int, path: str, unknown: frozenset[str]) -> tuple[list[str], int]:
    """Returns the lines of the fields from `position` to the end of their message, and where that is."""
    lines: list[str] = []
    while position < len(tokens) and tokens[position] not in _CLOSING.values():
        name = tokens[position]
        field = f"{path}.{name}" if path else name
        position += 1
        if position < len(tokens) and tokens[position] == ":":
            position += 1
        if position == len(tokens):
            raise InputError(f"expected a value of `{field}` in the target description but got its end")
        if tokens[position] in ("{", "<"):
            inner, end = _keep_fields(tokens, position + 1, field, unknown)
            _expect(tokens, end, _CLOSING[tokens[position]])
            value = ["{", *(f"  {line}" for line in inner), "}"]
        else:
            end = _find_value_end(tokens, position)
            value = [": " + " ".join(tokens[position : end + 1])]
        position = end + 1
        if position < len(tokens) and tokens[position] in (",", ";"):
            position += 1
        if field not in unknown:
            lines += [f"{name}{' ' if value[0] == '{' else ''}{value[0]}", *value[1:]]
    return lines, position


def _find_value_end(tokens: tuple[str, ...], position: int) -> int:
    """Position of the value's last token: of a list its bracket, of a scalar the token itself."""
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
