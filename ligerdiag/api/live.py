"""From a Python function in the caller's process to a source that a worker can load."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ligerdiag.case import Case
from ligerdiag.compile.array_arguments import ArgumentPickler
from ligerdiag.compile.array_records import choose_mesh
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.function_file import Surroundings, write_function_file
from ligerdiag.compile.function_pickler import (
    FunctionPickler,
    Pickled,
    list_pytree_classes,
    pickle_live,
    settle_class_names,
)
from ligerdiag.compile.importable import list_own_folders
from ligerdiag.compile.jitted import unwrap_jitted
from ligerdiag.compile.job import Source
from ligerdiag.compile.toolchain import link_package
from ligerdiag.errors import InputError

_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_softmax_custom_jvp",
)
"""The settings that a program can depend on, beside its function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFunction:
    """A function, what it is called with, and what is expected."""

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    mesh: Mapping[str, int] | Sequence[int] | None = None
    name: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    effects: Mapping[str, Mapping[str, Sequence[int]]] | None = None
    reference: Callable[..., Any] | None = None


def write_live_function(live: LiveFunction, cache: Cache, root: Path) -> Source:
    """Writes the function down and says where; InputError where it or its arguments cannot be handed to a worker."""
    name = live.name or name_function(live.function)
    if not callable(cast("object", live.function)):
        raise InputError(f"expected a function but got {live.function!r:.60} (type={type(live.function).__name__})")
    unwrapped = unwrap_jitted(live.function, live.specs)
    arguments, meshes = _pickle_arguments(unwrapped.arguments, name, str(root))
    case = Case(
        name=name,
        function=unwrapped.function,
        args=(),
        mesh=choose_mesh(live.mesh, meshes),
        expected=live.expected,
        expected_rules=live.expected_rules,
        effects=live.effects or {},
        reference=live.reference,
    )
    pickled = pickle_live(case, str(root))
    classes = (*arguments.classes, *pickled.classes)
    registered = pickle_live(list_pytree_classes(classes), str(root))
    offered = _offer_cloudpickle(cache)
    surroundings = Surroundings(
        python="{}.{}".format(*sys.version_info),
        path=(*(folder for folder in list_own_folders() if folder not in (str(root), offered)), offered),
        files=tuple(sorted(os.path.abspath(file) for file in arguments.files | pickled.files)),
        settings=_read_settings(),
        donated=tuple(sorted(unwrapped.donated)),
    )
    data = arguments.data + pickled.data + registered.data
    path = write_function_file(cache.root, surroundings, settle_class_names(data, classes))
    return Source(module=_describe_place(live.function), root=str(root), pickled=str(path))


def name_function(function: Callable[..., Any]) -> str:
    """Returns the function's own name; for a `partial`, the name of the function inside."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    name = str(getattr(function, "__name__", type(function).__name__))
    return name.strip("<>")


def _offer_cloudpickle(cache: Cache) -> str:
    """Returns a folder that has cloudpickle and nothing else, for a toolchain that lacks it."""
    spec = find_spec("cloudpickle")
    assert spec is not None
    assert spec.origin is not None
    return str(link_package(Path(spec.origin).parent, cache.root))


def _describe_place(function: Any) -> str:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    kind = cast("type[Any]", type(function))
    qualname = getattr(function, "__qualname__", kind.__qualname__)
    return f"{getattr(function, '__module__', None) or kind.__module__}:{qualname}"


def _pickle_arguments(specs: tuple[Any, ...], name: str, root: str) -> tuple[Pickled, list[Mapping[str, int]]]:
    picklers: list[ArgumentPickler] = []

    def make(stream: Any, by_value: frozenset[str]) -> FunctionPickler:
        picklers.append(ArgumentPickler(stream, by_value))
        return picklers[-1]

    try:
        pickled = pickle_live(specs, root, make)
    except InputError as error:
        raise InputError(f"arguments of `{name}`: {error}") from error
    return pickled, picklers[0].meshes


def _read_settings() -> dict[str, object]:
    library: Any = sys.modules.get("jax")
    if library is None:
        return {}
    settings = {name: getattr(library.config, name, None) for name in _SETTINGS}
    return {name: value for name, value in settings.items() if isinstance(value, str | bool)}
