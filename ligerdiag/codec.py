"""Reads and writes plain records as JSON, with the standard library only. Nothing is unpickled, and every type is
checked.

A record is a dataclass, an enum of strings, a path, a tuple, a frozen set, a mapping, or a plain JSON value. The JSON
object of a dataclass has its fields and no others; a field that may be None may be missing. A mapping becomes an object
if its keys are strings, otherwise an array of pairs; its order is kept. A value of a union type is read as the first
member type that fits.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAliasType, Union, cast, get_args, get_origin, get_type_hints

type JsonObject = dict[str, Any]
"""A JSON object that is still being filled."""
type Json = Mapping[str, object]


MAXIMUM_MESSAGE = 400


class FieldError(ValueError):
    """Raised if JSON does not have the expected form. The message is one printable line that names the field."""

    def __init__(self, message: str) -> None:
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message[:MAXIMUM_MESSAGE])
        super().__init__(shown + ("…" if len(message) > MAXIMUM_MESSAGE else ""))


def parse_object(text: str | bytes) -> Json:
    """Parses a JSON object. Raises FieldError for any other text."""
    return as_object(_parse_json(text), "document")


def decode_text(data: bytes) -> str:
    """Returns bytes in UTF-8 as text. Raises FieldError for any other bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(f"expected text in UTF-8, but byte {error.start + 1} is invalid") from None


def _parse_json(text: str | bytes) -> object:
    text = decode_text(text) if isinstance(text, bytes) else text
    if not text.strip():
        raise FieldError("expected JSON but got an empty text")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FieldError(f"expected JSON, but line {error.lineno} has an error at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise FieldError("expected JSON, but it is nested too deeply, or a number in it is too long") from None


def _show(value: object) -> str:
    """Returns the beginning of a JSON value, as a message shows it."""
    return "nothing" if value is None else f"{value!r:.60}"


def as_object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise FieldError(f"expected an object for `{name}` but got {_show(value)}")
    return cast("dict[str, Any]", value)


def as_list(value: object, name: str) -> list[object]:
    """Returns the value if it is a JSON array. Raises FieldError for any other value. name: the field, for the error."""
    if not isinstance(value, list):
        raise FieldError(f"expected an array for `{name}` but got {_show(value)}")
    return cast("list[object]", value)


def as_str(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise FieldError(f"expected a string for `{name}` but got {_show(value)}")
    return value


def as_int(value: object, name: str) -> int:
    """Returns the value if it is an integer. Raises FieldError for anything else. name: the field, for the error."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldError(f"expected an integer for `{name}` but got {_show(value)}")
    return value


def read_object(fields: Json, name: str) -> Json:
    """Returns the field `name` as a JSON object. Raises FieldError if it is missing or not an object."""
    return as_object(fields.get(name), name)


def read_list(fields: Json, name: str) -> list[object]:
    """Returns the field `name` as a list. Raises FieldError if it is missing or not an array."""
    return as_list(fields.get(name), name)


def read_str(fields: Json, name: str) -> str:
    """Returns the field `name` as a string. Raises FieldError if it is missing or not a string."""
    return as_str(fields.get(name), name)


def read_int(fields: Json, name: str) -> int:
    """Returns the field `name` as an integer. Raises FieldError if it is missing or not an integer."""
    return as_int(fields.get(name), name)


def read_count(fields: Json, name: str) -> int:
    """Returns the field `name` as an integer of at least 0. Raises FieldError if it is missing or has another value."""
    value = read_int(fields, name)
    if value < 0:
        raise FieldError(f"expected a number of at least 0 for `{name}` but got {_show(value)}")
    return value


def read_bool(fields: Json, name: str) -> bool:
    """Returns the field `name` as a bool. Raises FieldError if it is missing or not a bool."""
    return _as_bool(fields.get(name), name)


def read_float(fields: Json, name: str) -> float:
    """Returns the field `name` as a number. Raises FieldError if it is missing or not a number."""
    return _as_float(fields.get(name), name)


def read_word[Word: StrEnum](kind: type[Word], fields: Json, name: str) -> Word:
    """Returns the field `name` as a member of the enum `kind`. Raises FieldError if it is missing or not a member."""
    return _as_word(kind, fields.get(name), name)


def read_strs(fields: Json, name: str) -> tuple[str, ...]:
    """Returns the field `name`, an array of strings, as a tuple. Raises FieldError if it is missing or has another type."""
    return tuple(as_str(item, name) for item in read_list(fields, name))


def read_str_map(fields: Json, name: str) -> dict[str, str]:
    """Returns the field `name` as a dict from string to string.

    Raises FieldError if it is missing or has another type.
    """
    return {key: as_str(value, name) for key, value in read_object(fields, name).items()}


def read_record[A](kind: type[A], fields: Json, name: str) -> A:
    """Returns the field `name` as a record of class `kind`. Raises FieldError if it does not fit."""
    return _decode(kind, fields.get(name), name)


def encode_record(value: object) -> Any:
    """Returns the record as a value for `json.dumps`. `decode_record` makes an equal record from it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        pairs = [(encode_record(key), encode_record(entry)) for key, entry in entries]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else [list(pair) for pair in pairs]
    if isinstance(value, tuple | list | frozenset):
        return [encode_record(entry) for entry in cast("tuple[object, ...]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode_record(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(
        "expected a dataclass, a mapping, a tuple, a list, a frozen set, a path, a string, a number, a bool or None"
        f" but got {type(value).__name__}"
    )


def decode_record[A](kind: type[A], value: object) -> A:
    """Returns a record of class `kind`, made from a value of `json.loads`. Raises FieldError if the value does not fit."""
    return _decode(kind, value, "document")


def parse_record[A](kind: type[A], text: str | bytes) -> A:
    """Returns a record of class `kind`, parsed from JSON text. Raises FieldError if the text has no such record."""
    return decode_record(kind, _parse_json(text))


def pack_record(value: object) -> bytes:
    """Returns the record as gzipped JSON. Equal records give equal bytes."""
    return gzip.compress(json.dumps(encode_record(value)).encode(), mtime=0)


def unpack_record[A](kind: type[A], data: bytes, *, maximum: int) -> A:
    """Returns the record that `pack_record` packed.

    Raises FieldError if the bytes contain no such record, or unpack to more than `maximum` bytes.
    """
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, maximum)
    except zlib.error as error:
        raise FieldError(f"cannot unpack the gzip data: {error}") from error
    if not stream.eof:
        raise FieldError(f"the record is incomplete, or has more than {maximum} bytes when unpacked")
    return parse_record(kind, text)


def _decode(kind: Any, value: Any, name: str) -> Any:
    while isinstance(kind, TypeAliasType):
        kind = kind.__value__
    origin, parameters = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _decode_union(parameters, value, name)
    if kind in _PLAIN:
        return _PLAIN[kind](value, name)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _as_word(kind, value, name)
    if origin is tuple and parameters[-1] is not Ellipsis:
        return _decode_tuple(parameters, as_list(value, name), name)
    if origin is tuple or origin is frozenset:
        return cast("type[Any]", origin)(_decode(parameters[0], entry, name) for entry in as_list(value, name))
    if origin is Mapping:
        if _is_written_as_str(parameters[0]) or value == {}:
            pairs = list(as_object(value, name).items())
        else:
            pairs = [as_list(pair, name) for pair in as_list(value, name)]
        return dict(_decode_tuple(parameters, pair, name) for pair in pairs)
    hints, found = _get_hints(cast("type[object]", kind)), as_object(value, name)
    if not found.keys() <= hints.keys():
        raise FieldError(f"expected the fields of {kind.__name__} for `{name}` but got {', '.join(found):.80}")
    return kind(**{field: _decode(hint, found.get(field), field) for field, hint in hints.items()})


def _as_float(value: object, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise FieldError(f"expected a number for `{name}` but got {_show(value)}")
    return float(value)


def _as_bool(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false for `{name}` but got {_show(value)}")
    return value


def _as_word[Word: StrEnum](kind: type[Word], value: object, name: str) -> Word:
    word = as_str(value, name)
    try:
        return kind(word)
    except ValueError:
        raise FieldError(f"expected one of {', '.join(kind)} for `{name}` but got `{word:.60}`") from None


_PLAIN: dict[object, Callable[[object, str], object]] = {
    str: as_str,
    int: as_int,
    float: _as_float,
    bool: _as_bool,
    Path: lambda value, name: Path(as_str(value, name)),
    object: lambda value, name: value,
}


def _is_written_as_str(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, str | Path)


def _decode_union(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    """Returns the value decoded as the first of the kinds that fits; if none fits, raises the error of the last one."""
    if value is None and NoneType in kinds:
        return None
    *first, last = [kind for kind in kinds if kind is not NoneType]
    for kind in first:
        try:
            return _decode(kind, value, name)
        except FieldError:
            continue
    return _decode(last, value, name)


def _decode_tuple(kinds: tuple[Any, ...], value: Sequence[object], name: str) -> tuple[Any, ...]:
    if len(value) != len(kinds):
        raise FieldError(f"expected {len(kinds)} values for `{name}` but got {_show(value)}")
    return tuple(_decode(kind, entry, name) for kind, entry in zip(kinds, value, strict=True))


@cache
def _get_hints(kind: type) -> dict[str, Any]:
    if not is_dataclass(kind):
        raise TypeError(f"expected a dataclass as the type of a record but got {kind!r}")
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
