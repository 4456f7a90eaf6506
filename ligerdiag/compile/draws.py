"""Worker side: a hash of what decides the numbers that go into a case, and what they are held against."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import FunctionType
from typing import Any, cast

from ligerdiag.case import Arg, Case, Draw, Values

_PLAIN = (str, int, float, bool, bytes, type(None))


def compute_draws(case: Case, source: str, *, is_live: bool = False) -> str:
    """Returns the sha256 of the arguments' records and of the identity of the case's reference.

    Equal for two cases only when both are known to be equal: a reference that cannot be told from another (a closure, a
    method) counts as the case's own. is_live: every other one does so, too, as its file need not say what it does.
    """
    own = f"of {source}::{case.id}"
    reference = "none" if case.reference is None else ("" if is_live else _describe_function(case.reference)) or own
    arguments = _describe_value(case.args) or own
    return sha256(f"{arguments}\n{reference}".encode()).hexdigest()


def _describe_function(function: Callable[..., Any]) -> str:
    """Place and name, with the values that are bound to it; empty when these do not say which function it is."""
    if isinstance(function, partial):
        bound = cast("partial[Any]", function)
        parts = (_describe_function(bound.func), _describe_value(bound.args), _describe_value(bound.keywords))
        return f"partial({', '.join(parts)})" if all(parts) else ""
    if not isinstance(function, FunctionType) or function.__closure__ or "<" in function.__qualname__:
        return ""
    defaults = _describe_value((function.__defaults__, function.__kwdefaults__))
    place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return f"{place}:{function.__qualname__}{defaults}" if defaults else ""


def _describe_value(value: object) -> str:
    """Returns the value as text that is the same in each process; empty when it has none."""
    match value:
        case Arg(draw=Draw() | Values()):
            return repr(value)
        case Arg(draw=function):
            drawn = _describe_function(cast("Callable[..., Any]", function))
            return f"{replace(value, draw=Draw())!r} by {drawn}" if drawn else ""
        case tuple() | list():
            items = [_describe_value(item) for item in cast("list[object]", value)]
            return f"{'tuple' if isinstance(value, tuple) else 'list'}({', '.join(items)})" if all(items) else ""
        case dict():
            entries = cast("dict[object, object]", value)
            items = [(repr(name), _describe_value(item)) for name, item in entries.items()]
            return f"{{{', '.join(f'{name}: {item}' for name, item in items)}}}" if all(i for _, i in items) else ""
        case _:
            return repr(value) if isinstance(value, _PLAIN) else ""
