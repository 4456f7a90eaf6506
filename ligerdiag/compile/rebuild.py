"""Worker side: functions that the pickle of a live function calls to rebuild objects that cannot be pickled.

1. A kernel by value gets a module of its own, under a name that is made from its source: a replay looks kernels up by
   module and name.
2. Triton reads a kernel's source from its file. If the file does not have it (a notebook's cell, or a file that was
   changed after its import), the lines that the caller's Triton had read replace it.
"""

import importlib
import linecache
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from types import FunctionType, ModuleType
from typing import Any

from ligerdiag.case import Arg, Draw, Values

KERNELS = "ligerdiag_kernel_"
"""Prefix of the names of kernels' own modules."""

_replaced: set[str] = set()


def find_object(module: str, qualname: str, wrappers: Sequence[str]) -> Any:
    """Returns the object under that name, or, through those attributes, one inside of it."""
    found: Any = importlib.import_module(module)
    for name in (*qualname.split("."), *wrappers):
        found = getattr(found, name)
    return found


def build_arg(fields: Mapping[str, Any], draw: Mapping[str, Any], values: bytes | None) -> Arg:
    """Returns the argument for an array."""
    return Arg(**fields, draw=Draw(**draw) if values is None else Values(data=values))


def build_kernel(function: FunctionType, lines: Sequence[str], start: int, options: Mapping[str, Any]) -> Any:
    """Returns the kernel of `function`, whose source is `lines`, from line `start` of its file on."""
    file = function.__code__.co_filename
    there = linecache.getlines(file)
    if there[start - 1 : start - 1 + len(lines)] != list(lines):
        _replace_lines(file, there, lines, start)
    name = KERNELS + sha256("".join((file, str(start), *lines)).encode()).hexdigest()[:16]
    taken = sum(key == name or key.startswith(f"{name}_") for key in sys.modules)
    module = ModuleType(f"{name}_{taken}" if taken else name)
    function.__module__ = module.__name__
    function.__qualname__ = function.__name__
    library: Any = importlib.import_module("triton")
    kernel = library.jit(function, **options)
    setattr(module, function.__name__, kernel)
    sys.modules[module.__name__] = module
    return kernel


def build_jitted(function: Any, options: Mapping[str, Any]) -> Any:
    """`jax.jit` of the function."""
    library: Any = importlib.import_module("jax")
    return library.jit(function, **options)


def build_mesh(sizes: tuple[int, ...], names: tuple[str, ...]) -> Any:
    """Returns a mesh without devices: those that a program is compiled for come from outside, with axes of the type
    Auto."""
    library: Any = importlib.import_module("jax.sharding")
    return library.AbstractMesh(sizes, names, axis_types=(library.AxisType.Auto,) * len(names))


def register_pytree_class(kind: type[Any], fields: tuple[Any, Any] | None, functions: tuple[Any, Any] | None) -> None:
    """Makes the class a pytree node here as it is one where it comes from; see `PytreeClass`."""
    library: Any = importlib.import_module("jax").tree_util
    with suppress(ValueError):  # registered by an earlier load: cloudpickle keeps the class
        if fields is not None:
            library.register_dataclass(kind, *fields)
        elif functions is not None:
            library.register_pytree_node(kind, *functions)


def forget_kernels() -> None:
    """Drops what was rebuilt."""
    for name in [name for name in sys.modules if name.startswith(KERNELS)]:
        del sys.modules[name]
    for file in _replaced:
        linecache.cache.pop(file, None)
    _replaced.clear()


def _replace_lines(file: str, there: Sequence[str], lines: Sequence[str], start: int) -> None:
    text = [*there, *["\n"] * (start - 1 + len(lines) - len(there))]
    text[start - 1 : start - 1 + len(lines)] = lines
    linecache.cache[file] = (sum(map(len, text)), None, text, file)
    _replaced.add(file)
