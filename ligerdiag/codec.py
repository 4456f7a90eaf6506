"""Reads and writes plain records as JSON: each field has the type that is expected, whoever wrote it. Standard library
only.

Plain records to JSON and back, for a process that is not trusted: nothing is unpickled, every type is checked.

1. A record is a dataclass, an enum of strings, a path, a tuple, a frozen set, a mapping, or what JSON itself knows.
2. An object of JSON has a dataclass's fields, all of them and no others. A mapping is an array of pairs: its keys may be of
   any of these types, and their order stays.
3. Of a union the first member that fits is taken.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

type JsonObject = dict[str, Any]
"""A JSON object that is being made."""
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


class RecordError(ValueError):
    """The JSON is not of the type that was expected; the message names the place."""


def encode_record(value: object) -> object:
    """Returns a value that `json.dumps` can write; `decode_record` makes an equal value of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return [[encode_record(key), encode_record(entry)] for key, entry in pairs.items()]
    if isinstance(value, tuple | list | frozenset):
        return [encode_record(entry) for entry in cast("tuple[object, ...]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode_record(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"expected a plain record but got {type(value).__name__}")


def decode_record[A](kind: type[A], value: object) -> A:
    """Returns the value as `kind`, from what `json.loads` made of it. Raises RecordError when it is not one."""
    return _decode(kind, value, kind.__name__)


def _decode(kind: Any, value: Any, place: str) -> Any:
    origin, parameters = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _decode_union(parameters, value, place)
    if kind is NoneType:
        return _require(value is None, None, kind, value, place)
    if kind is bool:
        return _require(isinstance(value, bool), value, kind, value, place)
    if kind is int:
        return _require(isinstance(value, int) and not isinstance(value, bool), value, kind, value, place)
    if kind is float:
        return float(
            _require(isinstance(value, int | float) and not isinstance(value, bool), value, kind, value, place)
        )
    if kind is str:
        return _require(isinstance(value, str), value, kind, value, place)
    if kind is Path:
        return Path(_require(isinstance(value, str), value, kind, value, place))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        known = [member.value for member in kind]
        return kind(_require(value in known, value, kind, value, place))
    _require(isinstance(value, dict if origin is None else list), None, kind, value, place)
    if origin is tuple:
        return _decode_tuple(parameters, value, place)
    if origin is frozenset:
        return frozenset(_decode(parameters[0], entry, place) for entry in value)
    if origin is Mapping:
        return dict(_decode_tuple(parameters, _decode_list(entry, place), place) for entry in value)
    hints = _get_hints(cast("type[object]", kind))
    if value.keys() != hints.keys():
        raise RecordError(f"expected the fields of {place} but got {', '.join(map(repr, value))[:80]}")
    return kind(**{name: _decode(hint, value[name], f"{place}.{name}") for name, hint in hints.items()})


def _decode_union(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    for kind in kinds[:-1]:
        try:
            return _decode(kind, value, place)
        except RecordError:
            continue
    return _decode(kinds[-1], value, place)


def _decode_list(value: Any, place: str) -> list[Any]:
    return _require(isinstance(value, list), value, list, value, place)


def _decode_tuple(kinds: tuple[Any, ...], value: list[Any], place: str) -> tuple[Any, ...]:
    if kinds[-1] is Ellipsis:
        return tuple([_decode(kinds[0], entry, place) for entry in value])
    _require(len(value) == len(kinds), None, tuple, value, place)
    return tuple(_decode(kind, entry, place) for kind, entry in zip(kinds, value, strict=True))


@cache
def _get_hints(kind: type) -> dict[str, Any]:
    if not is_dataclass(kind):
        raise TypeError(f"expected the type of a plain record but got {kind!r}")
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _require(fits: bool, result: Any, kind: Any, value: Any, place: str) -> Any:
    if not fits:
        raise RecordError(f"expected {getattr(kind, '__name__', kind)} for {place} but got {value!r:.60}")
    return result
