"""Plain records to JSON and back, for a process that is not trusted: nothing is unpickled, every type is checked.

1. A record is a dataclass, an enum of strings, a path, a tuple, a frozen set, a mapping, or what JSON itself knows.
2. An object of JSON has a dataclass's fields, all of them and no others. A mapping is an array of pairs: its keys may be of
   any of these types, and their order stays.
3. Of a union the first member that fits is taken.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


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
