"""Gives each kernel call and each access to a Ref a name that survives JAX's transformations.

The name is a scope of JAX's name stack in which the call or the access is traced: `ld_call_` and eight digits. The name
stack stays with an equation when JAX copies, splits, moves or transposes it, and ends up in the operation's MLIR
location. Names are removed from the module before it is compiled, so they do not change the program.

The digits are a hash of the Python stack: files, lines and the position in the bytecode. So two calls on one line have
two names, and so have calls of a library's function from two callers; two traces of one program give a call the same
name. The calls of a Python loop share a name, and only their order distinguishes them. An equation that JAX traces
again keeps its name. Nothing is named inside a Pallas kernel, whose operands are Refs in a memory space.
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
from ligerdiag.compile.cases.stablehlo_program import walk_operations
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
)
from ligerdiag.errors import is_project_file
from ligerdiag.model.findings import SourceLine

_OWN = ("jax", "jaxlib", "ligerdiag")
"""Packages whose frames are left out of the hash in a name, because they may differ between two traces of one program.
Frames of Python's library are left out too.
"""


@contextmanager
def name_calls(primitives: Sequence[Any], *, marks_stores: bool = False) -> Generator[dict[str, SourceLine]]:
    """Names every call of the kernel primitives and every access to a Ref inside the context. Yields a mapping from
    each name to the user's line that makes the call or access. The mapping is filled while the context is open.

    marks_stores: whether to mark each value that is stored into a Ref with the operation `intent_jax.STORED`, so that
    `find_stores` finds it.
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
    """Returns the stores into Refs in a tagged module that was traced with `marks_stores`.

    sites: maps the name of each store to the user's line that makes it.
    """
    found: list[RefStore] = []
    for operation in walk_operations(module.operation):
        name = read_name(operation.location) or ""
        if (call := read_call_name(name)) and strip_tag(name).rpartition("/")[2] == STORED.name:
            found.append(RefStore(tag=read_tag(operation), name=call, source=sites.get(call)))
    return tuple(found)


def drop_call_names(module: Any) -> None:
    """Removes the names of kernel calls and Ref accesses from the locations of the module's operations, in place."""
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
    """Returns the JAX primitives that make, read, write and freeze Refs, as far as this version of JAX has them."""
    holders = [importlib.import_module(name) for name in ("jax._src.core", "jax._src.state.primitives")]
    return [getattr(holder, name) for holder in holders for name in _ACCESSES if hasattr(holder, name)]


_STORES = frozenset({"swap", "addupdate"})
_ACCESSES = ("ref_p", "freeze_p", "get_p", "swap_p", "addupdate_p")


def _identify_call() -> tuple[str, SourceLine | None]:
    """Returns the name of the call that the user's code is making, and its line."""
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
    if file.startswith(_find_standard_library()) and not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return True
    return file.startswith(_find_own_folders())


@cache
def _find_standard_library() -> str:
    return sysconfig.get_path("stdlib")


@cache
def _find_own_folders() -> tuple[str, ...]:
    found = [util.find_spec(name) for name in _OWN]
    return tuple(f"{Path(spec.origin).parent}/" for spec in found if spec is not None and spec.origin)
