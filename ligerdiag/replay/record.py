"""A replay's record as JSON and back: what a worker answers and what the cache keeps. NaN and infinities are kept.

Python's own JSON is read and written here, which knows `NaN` and `Infinity`; a report for others never holds them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from ligerdiag.compile.fields import (
    FieldError,
    Json,
    as_int,
    as_list,
    as_object,
    as_str,
    read_float,
    read_int,
    read_list,
    read_object,
    read_str,
    read_word,
)
from ligerdiag.outcomes import Attribution, LaunchNumbers, OutputNumbers, Replay, ReplayState


def render_replay(replay: Replay) -> dict[str, object]:
    """Returns the record as a JSON object."""
    return asdict(replay)


def parse_replay(fields: Json) -> Replay:
    """Parses the record from a JSON object; raises FieldError when it is none. `cached` is false: the reader of a cache
    sets it."""
    return Replay(
        state=read_word(ReplayState, fields, "state"),
        reason=read_str(fields, "reason"),
        outputs=_read_map(fields, "outputs", _parse_output),
        reference=_read_map(fields, "reference", _as_float),
        reference_tolerance=_read_map(fields, "reference_tolerance", _as_float),
        changed_inputs=_read_map(fields, "changed_inputs", _as_float),
        second_run=_read_map(fields, "second_run", _as_float),
        launches=tuple(_parse_launch(item) for item in read_list(fields, "launches")),
        unreached=tuple(as_str(item, "unreached") for item in read_list(fields, "unreached")),
        seconds=read_float(fields, "seconds"),
        estimated_seconds=read_float(fields, "estimated_seconds"),
        estimated_bytes=read_int(fields, "estimated_bytes"),
    )


def _parse_output(value: object, name: str) -> OutputNumbers:
    fields = as_object(value, name)
    return OutputNumbers(
        attribution=read_word(Attribution, fields, "attribution"),
        error=read_float(fields, "error"),
        stale_error=read_float(fields, "stale_error"),
        distance=read_float(fields, "distance"),
        tolerance=read_float(fields, "tolerance"),
        rows_fresh=read_int(fields, "rows_fresh"),
        rows_stale=read_int(fields, "rows_stale"),
        rows=read_int(fields, "rows"),
    )


def _parse_launch(value: object) -> LaunchNumbers:
    fields = as_object(value, "launches")
    return LaunchNumbers(
        kernel=read_str(fields, "kernel"),
        instruction=read_str(fields, "instruction"),
        launches=read_int(fields, "launches"),
        checked=read_int(fields, "checked"),
        unwritten=_read_numbered(fields, "unwritten", _as_pair),
        racing=_read_numbered(fields, "racing", _as_float),
    )


def _read_map[T](fields: Json, name: str, parse: Callable[[object, str], T]) -> dict[str, T]:
    return {key: parse(value, name) for key, value in read_object(fields, name).items()}


def _read_numbered[T](fields: Json, name: str, parse: Callable[[object, str], T]) -> Mapping[int, T]:
    """JSON has no other keys than strings."""
    found: dict[int, T] = {}
    for key, value in read_object(fields, name).items():
        if not key.isdecimal():
            raise FieldError(f"expected numbers as keys of `{name}` but got `{key:.60}`")
        found[int(key)] = parse(value, name)
    return found


def _as_float(value: object, name: str) -> float:
    return read_float({name: value}, name)


def _as_pair(value: object, name: str) -> tuple[int, int]:
    items = as_list(value, name)
    if len(items) != 2:
        raise FieldError(f"expected two integers for `{name}` but got {value!r:.60}")
    return as_int(items[0], name), as_int(items[1], name)
