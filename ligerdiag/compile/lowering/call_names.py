"""Worker side: gives each kernel call of the user's code a name that it keeps through all that JAX does with it.

1. The name is a scope of JAX's name stack around the bind, `ld_call_` and eight digits. The stack goes with an equation
   wherever JAX copies, splits, moves or transposes it, and ends as the name of the operation's MLIR location.
2. The digits are a hash of the Python stack: files, lines, and the position in the bytecode, which tells two calls on one
   line apart, and the callers, which tell two callers of a library's function apart. Two traces of one program give a call
   one name. The calls of a Python loop have one name; which of them is which, their order says.
3. What JAX binds again has the name already, and gets no other one.
4. The names are dropped from the module before it is compiled: the program is not changed by them.
"""

import inspect
import sysconfig
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import util
from pathlib import Path
from types import FrameType
from typing import Any

import jax
from jax.extend import source_info_util

from ligerdiag.compile.lowering.tags import (
    CALL_NAME,
    drop_call_name,
    put_location,
    read_name,
    rename_location,
    walk_operations,
)

_OWN = ("jax", "jaxlib", "ligerdiag")
"""Packages whose frames may differ between two traces of one program, as those of Python's library may."""


def read_call_name(text: object) -> str:
    """Returns the name of the call that a name stack or a location's name is of; empty where there is none."""
    found = CALL_NAME.search(str(text))
    return "" if found is None else found[0]


@contextmanager
def name_calls(primitives: Sequence[Any]) -> Generator[None]:
    """Names every bind of the primitives inside the context."""
    before = [primitive.__dict__.get("bind") for primitive in primitives]
    for primitive in primitives:
        primitive.bind = _name_bind(primitive.bind)
    try:
        yield
    finally:
        for primitive, bind in zip(primitives, before, strict=True):
            if bind is None:
                del primitive.bind
            else:
                primitive.bind = bind


def drop_call_names(module: Any) -> None:
    """Takes the names out of the locations of the module's operations, in place."""
    for operation in reversed(list(walk_operations(module.operation))):  # inner ones first: see `put_location`
        name = read_name(operation.location) or ""
        if read_call_name(name):
            put_location(operation, rename_location(operation.location, drop_call_name(name), module.context))


def _name_bind(bind: Callable[..., Any]) -> Callable[..., Any]:
    def named(*args: Any, **params: Any) -> Any:
        source_info: Any = source_info_util.current()
        if read_call_name(source_info.name_stack):
            return bind(*args, **params)
        library: Any = jax
        with library.named_scope(compute_call_name()):
            return bind(*args, **params)

    return named


def compute_call_name() -> str:
    """Returns the name of the call that the user's code makes now."""
    frames = [
        f"{frame.f_code.co_filename}:{frame.f_lineno}:{frame.f_lasti}"
        for frame in _iterate_callers(inspect.currentframe())
        if not _is_own(frame.f_code.co_filename)
    ]
    return f"ld_call_{zlib.crc32('\n'.join(frames).encode()):08x}"


def _iterate_callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@cache
def _is_own(file: str) -> bool:
    if file.startswith("<"):
        return True
    library = sysconfig.get_path("stdlib")
    if file.startswith(library) and not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return True
    return file.startswith(_find_own_folders())


@cache
def _find_own_folders() -> tuple[str, ...]:
    found = [util.find_spec(name) for name in _OWN]
    return tuple(f"{Path(spec.origin).parent}/" for spec in found if spec is not None and spec.origin)
