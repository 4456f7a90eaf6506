"""Reads fields of decoded JSON with the expected type, from any source: a worker, a cache, an untrusted file."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

type Json = Mapping[str, object]


MAXIMUM_MESSAGE = 400


class FieldError(ValueError):
    """The JSON is not what was expected; the message names the field, on one line, whatever the field is called."""

    def __init__(self, message: str) -> None:
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message[:MAXIMUM_MESSAGE])
        super().__init__(shown + ("…" if len(message) > MAXIMUM_MESSAGE else ""))


def parse_object(text: str | bytes) -> Json:
    """Returns the JSON object in `text`; FieldError when there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"no JSON: {error}") from error
    return as_object(value, "document")


def as_object(value: object, name: str) -> Json:
    """`value` as an object."""
    if not isinstance(value, dict):
        raise FieldError(f"expected an object for `{name}` but got {value!r:.60}")
    return cast("dict[str, Any]", value)


def as_list(value: object, name: str) -> list[object]:
    """`value` as an array."""
    if not isinstance(value, list):
        raise FieldError(f"expected an array for `{name}` but got {value!r:.60}")
    return cast("list[object]", value)


def as_str(value: object, name: str) -> str:
    """`value` as a string."""
    if not isinstance(value, str):
        raise FieldError(f"expected a string for `{name}` but got {value!r:.60}")
    return value


def as_int(value: object, name: str) -> int:
    """`value` as an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldError(f"expected an integer for `{name}` but got {value!r:.60}")
    return value


def read_object(fields: Json, name: str) -> Json:
    """Returns the field as an object."""
    return as_object(fields.get(name), name)


def read_list(fields: Json, name: str) -> list[object]:
    """Returns the field as an array."""
    return as_list(fields.get(name), name)


def read_str(fields: Json, name: str) -> str:
    """Returns the field as a string."""
    return as_str(fields.get(name), name)


def read_int(fields: Json, name: str) -> int:
    """Returns the field as an integer."""
    return as_int(fields.get(name), name)


def read_count(fields: Json, name: str) -> int:
    """The field as an integer that is not negative."""
    value = read_int(fields, name)
    if value < 0:
        raise FieldError(f"expected no negative number for `{name}` but got {value!r:.60}")
    return value


def read_bool(fields: Json, name: str) -> bool:
    """The field as a truth value."""
    value = fields.get(name)
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false for `{name}` but got {value!r:.60}")
    return value


def read_float(fields: Json, name: str) -> float:
    """Returns the field as a number."""
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise FieldError(f"expected a number for `{name}` but got {value!r:.60}")
    return float(value)


def read_word[Word: StrEnum](kind: type[Word], fields: Json, name: str) -> Word:
    """Returns the field as one of the words of `kind`."""
    word = read_str(fields, name)
    try:
        return kind(word)
    except ValueError:
        raise FieldError(f"expected one of {', '.join(kind)} for `{name}` but got `{word:.60}`") from None


def read_strs(fields: Json, name: str) -> tuple[str, ...]:
    """Returns the field as strings."""
    return tuple(as_str(item, name) for item in read_list(fields, name))


def read_ints(fields: Json, name: str) -> tuple[int, ...]:
    """Returns the field as integers."""
    return tuple(as_int(item, name) for item in read_list(fields, name))


def read_str_map(fields: Json, name: str) -> dict[str, str]:
    """Returns the field as a mapping of strings."""
    return {key: as_str(value, name) for key, value in read_object(fields, name).items()}


def read_int_map(fields: Json, name: str) -> dict[str, int]:
    """Returns the field as a mapping from strings to integers."""
    return {key: as_int(value, name) for key, value in read_object(fields, name).items()}
