"""Worker side: gives each kernel call of the user's code, and each access to a Ref, a name that it keeps through all that
JAX does with it.

1. The name is a scope of JAX's name stack around the bind, `ld_call_` and eight digits. The stack goes with an equation
   wherever JAX copies, splits, moves or transposes it, and ends as the name of the operation's MLIR location.
2. The digits are a hash of the Python stack: files, lines, and the position in the bytecode, which tells two calls on one
   line apart, and the callers, which tell two callers of a library's function apart. Two traces of one program give a call
   one name. The calls of a Python loop have one name; which of them is which, their order says.
3. What JAX binds again has the name already, and gets no other one.
4. The names are dropped from the module before it is compiled: the program is not changed by them.
5. In a kernel of Pallas, whose operands are Refs in a memory space, nothing has a name.
"""

import importlib
import inspect
import sysconfig
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import util
from pathlib import Path
from types import FrameType
from typing import Any

import jax
from jax.extend import source_info_util

from ligerdiag.artifacts.call_records import RefStore
from ligerdiag.compile.lowering.intent_jax import STORED, read_form
from ligerdiag.compile.lowering.jax_versions import get_type
from ligerdiag.compile.lowering.tags import (
    drop_call_name,
    read_call_name,
    read_name,
    read_tag,
    rename_location,
    set_location,
    strip_tag,
    walk_operations,
)
from ligerdiag.errors import is_project_file
from ligerdiag.model.findings import SourceLine

_OWN = ("jax", "jaxlib", "ligerdiag")
"""Packages whose frames may differ between two traces of one program, as those of Python's library may."""


@contextmanager
def name_calls(primitives: Sequence[Any], *, marks_stores: bool = False) -> Generator[dict[str, SourceLine]]:
    """Names every bind of the primitives inside the context, and every access to a Ref; yields each name's line.

    marks_stores: what is stored into a Ref is copied, for `find_stores`.
    """
    sites: dict[str, SourceLine] = {}
    every = [*primitives, *_find_accesses()]
    before = [primitive.__dict__.get("bind") for primitive in every]
    for primitive in every:
        primitive.bind = _name_bind(primitive.bind, sites, marks=marks_stores and primitive.name in _STORES)
    try:
        yield sites
    finally:
        for primitive, bind in zip(every, before, strict=True):
            if bind is None:
                del primitive.bind
            else:
                primitive.bind = bind


def find_stores(module: Any, sites: Mapping[str, SourceLine]) -> tuple[RefStore, ...]:
    """Returns the marked stores of a tagged module. sites: the lines of their names."""
    found: list[RefStore] = []
    for operation in walk_operations(module.operation):
        name = read_name(operation.location) or ""
        if (call := read_call_name(name)) and strip_tag(name).rpartition("/")[2] == STORED.name:
            found.append(RefStore(tag=read_tag(operation), name=call, source=sites.get(call)))
    return tuple(found)


def drop_call_names(module: Any) -> None:
    """Takes the names out of the locations of the module's operations, in place."""
    for operation in reversed(list(walk_operations(module.operation))):  # inner ones first: see `set_location`
        name = read_name(operation.location) or ""
        if read_call_name(name):
            set_location(operation, rename_location(operation.location, drop_call_name(name), module.context))


def _name_bind(bind: Callable[..., Any], sites: dict[str, SourceLine], *, marks: bool) -> Callable[..., Any]:
    def named(*args: Any, **params: Any) -> Any:
        source_info: Any = source_info_util.current()
        if read_call_name(source_info.name_stack) or _is_in_kernel(args):
            return bind(*args, **params)
        name, site = _identify_call()
        if site is not None:
            sites[name] = site
        library: Any = jax
        with library.named_scope(name):
            if marks and read_form(args[1]) is not None:
                return bind(args[0], STORED.bind(args[1]), *args[2:], **params)
            return bind(*args, **params)

    return named


def _is_in_kernel(operands: Sequence[Any]) -> bool:
    types: list[Any] = [get_type(operands[0])] if operands else []
    return any(type(one).__name__ == "AbstractRef" and one.memory_space is not None for one in types)


def _find_accesses() -> list[Any]:
    """Returns the primitives that make, read, write and end Refs, as far as this JAX has them."""
    holders = [importlib.import_module(name) for name in ("jax._src.core", "jax._src.state.primitives")]
    return [getattr(holder, name) for holder in holders for name in _ACCESSES if hasattr(holder, name)]


_STORES = frozenset({"swap", "addupdate"})
_ACCESSES = ("ref_p", "freeze_p", "get_p", "swap_p", "addupdate_p")


def _identify_call() -> tuple[str, SourceLine | None]:
    """Returns the name of the call that the user's code makes now, and its line."""
    frames = [one for one in _iterate_callers(inspect.currentframe()) if not _is_own(one.f_code.co_filename)]
    text = "\n".join(f"{one.f_code.co_filename}:{one.f_lineno}:{one.f_lasti}" for one in frames)
    site = next((one for one in frames if is_project_file(one.f_code.co_filename)), None)
    line = None
    if site is not None:
        line = SourceLine(file=site.f_code.co_filename, line=site.f_lineno, function=site.f_code.co_qualname)
    return f"ld_call_{zlib.crc32(text.encode()):08x}", line


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
