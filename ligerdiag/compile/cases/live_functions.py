"""Transfers a live function (a function of the running program, checked without a case file) from the caller's process
to a worker. This module defines the file in which the function is sent, and the functions that the pickles in the file
call.

The file has a line of JSON and then four pickles: the state of the user's modules (`module_state`), the arguments, the
case, and the classes to be registered as pytree nodes. The line has everything needed before unpickling, above all the
import path. The file lies in the cache under the sha256 of its content and is written completely or not at all. A
reader accepts only a file whose content has the sha256 in its name.

A pickle cannot hold a kernel, a function of `jax.jit` or a mesh with devices; it calls a `build_` function of this
module instead. A kernel gets a module of its own, named after its source, because replay looks kernels up by module and
name. Triton reads a kernel's source from its file. If the file does not contain the source (a notebook's cell, or a
file that changed after its import), the lines that the caller's Triton read replace those of the file.
"""

import dataclasses
import importlib
import importlib.machinery
import inspect
import json
import linecache
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

from ligerdiag.artifacts.scratch_folders import replace_file
from ligerdiag.codec import FieldError, encode_record, parse_record
from ligerdiag.compile.cases.shardings import has_shardings
from ligerdiag.errors import InputError, is_project_file

FOLDER = "functions"
"""Name of the folder in the cache for the files of live functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """The state of the caller's process that a worker needs to unpickle and run a live function."""

    python: str
    """The caller's Python version, such as `3.12`: bytecode belongs to one version."""
    path: tuple[str, ...]
    """Absolute folders in which the user's modules are found, searched after those of the worker."""
    files: tuple[str, ...]
    """Absolute paths of the files that define the objects that are pickled by value."""
    settings: Mapping[str, object]
    """Options of `jax.config` that can change what a function computes."""
    donated: tuple[int, ...]
    """Positions of the arguments that the function donates."""
    platforms: str | None = None
    """The caller's setting `jax_platforms`; None if it is not set."""
    folder: str = ""
    """Absolute path of the caller's working directory, from which the user's code opens files; empty for the folder from
    which imports start.
    """


def write_function_file(root: Path, state: ProcessState, pickled: bytes) -> Path:
    """Writes a function file into the cache at `root` and returns the file's path. Raises InputError if it cannot be
    written.
    """
    content = json.dumps(encode_record(state), sort_keys=True).encode() + b"\n" + pickled
    folder = root / FOLDER
    path = folder / f"{sha256(content).hexdigest()}.pickle"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.is_file() or path.stat().st_size != len(content):
            replace_file(path, content)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}") from error
    return path


def read_function_file(path: Path) -> tuple[ProcessState, bytes]:
    """Returns the process state and the pickles in a function file. Raises InputError if the file is missing or its
    content has changed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from error
    if sha256(content).hexdigest() != path.stem:
        raise InputError(f"`{path}` has changed since it was written: its content does not have the sha256 in its name")
    line, _, pickled = content.partition(b"\n")
    try:
        return parse_record(ProcessState, line), pickled
    except FieldError as error:
        raise InputError(f"`{path}`: {error}") from error


WRAPPERS = ("__wrapped__", "fn", "_fun")
"""Names of the attributes in which decorators keep the decorated function."""
MAXIMUM_WRAPPERS = 8


def list_own_folders() -> tuple[str, ...]:
    """Returns the entries of `sys.path` that belong neither to Python nor to installed packages. They are absolute and
    without duplicates.
    """
    folders = [os.path.abspath(entry) for entry in sys.path]
    return tuple(dict.fromkeys(entry for entry in folders if os.path.exists(entry) and _is_own(entry)))


def list_unimportable(root: str) -> tuple[ModuleType, ...]:
    """Returns the imported modules of the project that a worker could not import by name. A module that it would import
    from another file is among them.

    root: folder from which the worker imports.
    """
    own = list_own_folders()
    path = [root, *(entry for entry in sys.path if os.path.abspath(entry) not in own), *own]
    specs: _Specs = {}
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str)
        and getattr(module, "__name__", "") == name != "__main__"
        and is_project_file(file)
        and not _is_found(name, file, path, specs)
    )


def find_reference(value: Any, by_value: frozenset[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Returns a reference by which another process finds `value`. Returns None if a worker would not find it in this
    way.

    The reference is (module, qualified name of an object in it, names of attributes); these attributes, followed one
    after the other from the object, give `value`. by_value: names of modules that a worker cannot import.
    """
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    found: Any = None if module == "__main__" or module in by_value else sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    steps: list[str] = []
    while found is not None and found is not value and len(steps) < MAXIMUM_WRAPPERS:
        step = next((name for name in WRAPPERS if getattr(found, name, None) is not None), "")
        found = getattr(found, step, None) if step else None
        steps.append(step)
    return None if found is not value else (module, qualname, tuple(steps))


def _is_own(entry: str) -> bool:
    return is_project_file(str(Path(entry) / "module.py"))


type _Specs = dict[str, importlib.machinery.ModuleSpec | None]
"""Where modules and the packages around them are found, by name; modules of one package share its entry."""


def _is_found(name: str, file: str, path: Sequence[str], specs: _Specs) -> bool:
    parts = name.split(".")
    locations: Sequence[str] | None = path
    for number in range(1, len(parts) + 1):
        part = ".".join(parts[:number])
        if part not in specs:
            specs[part] = _find_spec(part, locations, is_top=number == 1)
        spec = specs[part]
        if spec is None:
            return False
        if number == len(parts):
            return spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(file)
        locations = spec.submodule_search_locations
        if locations is None:
            return False
    return False


def _find_spec(name: str, locations: Sequence[str] | None, *, is_top: bool) -> importlib.machinery.ModuleSpec | None:
    """Returns where a module would be found: in the folders `locations`, or for a top-level module by the finder of an
    editable install; None if nowhere.
    """
    spec = importlib.machinery.PathFinder.find_spec(name, locations)
    if spec is not None or not is_top:
        return spec
    finders = [finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("__editable__")]
    found = (finder.find_spec(name, None) for finder in finders)
    return next((one for one in found if one is not None), None)


class Bound:
    """A function with fixed values for some of its arguments. A call passes all other arguments: first the positional
    ones, then the values of the keywords `names`.

    values: position to fixed value. keywords: name to fixed value. names: the arguments that the function gets by
    keyword.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        values: Mapping[int, Any],
        keywords: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.values = dict(sorted(values.items()))
        self.keywords = dict(keywords or {})
        self.names = tuple(names)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any) -> Any:
        """Returns the result of the function for the fixed values and these other arguments."""
        count = len(arguments) - len(self.names)
        every = list(arguments[:count])
        for position, value in self.values.items():
            every.insert(position, value)
        return self.function(*every, **dict(zip(self.names, arguments[count:], strict=True)), **self.keywords)

    def name_arguments(self, count: int) -> list[str]:
        """Returns a name for each of `count` arguments of a call."""
        by_position = name_arguments(self.function, count - len(self.names) + len(self.values))
        return [name for number, name in enumerate(by_position) if number not in self.values] + list(self.names)


def name_arguments(function: Callable[..., Any], count: int) -> list[str]:
    """Returns a name for each of `count` positional arguments: the function's parameter, or `args.0` for the first of
    `*args`. If the function has no parameter there, the names are `arg.0`, `arg.1` and so on.
    """
    own: Any = getattr(function, "name_arguments", None)
    if own is not None:
        return own(count)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return names + [f"{rest}.{number}" for number in range(count - len(names))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """A function without its `jax.jit`, with its arguments and the options of the `jax.jit`."""

    function: Any
    arguments: tuple[Any, ...]
    """The arguments that are not static, in order; those by keyword come last, sorted by name as in JAX."""
    donated: frozenset[int]
    """Positions, in `arguments`, of the arguments that the function donates."""
    keeps_unused: bool = False
    """Whether the `jax.jit` keeps the arguments that the function never reads."""


def unwrap_jitted(function: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any] | None = None) -> Unwrapped:
    """Takes the function out of its `jax.jit` and binds the static arguments to it. Returns it with all other
    arguments, and with the positions of those that the `jax.jit` donates. A function without a `jax.jit` is returned
    unchanged, except that it takes the `keywords` by position, after the other arguments.

    The `jax.jit` may be a method. It may also be inside of a `functools.partial`, whose arguments then count as
    arguments of the call. If the `jax.jit` was given shardings, or is an `nnx.jit`, it stays around the function.
    """
    keywords = keywords or {}
    jitted, every, named = _unwrap_partial(function, arguments, keywords)
    info = _find_jit_info(jitted)
    if info is None:
        jitted, every, named = function, arguments, keywords
    static: set[int] = set()
    static_names: set[str] = set()
    donated: set[int | str] = set()
    inner = jitted
    if info is not None:
        static = {position % len(every) for position in info.static_argnums if position < len(every)}
        static_names = named.keys() & set(info.static_argnames)
        donated = {*info.donate_argnums, *info.donate_argnames}
        inner = jitted if not hasattr(jitted, "_jit_info") or has_shardings(jitted) else jitted.__wrapped__
    kept = [position for position in range(len(every)) if position not in static]
    names = sorted(named.keys() - static_names)
    if static or named:
        values = {position: every[position] for position in static}
        inner = Bound(inner, values, {name: named[name] for name in static_names}, names)
    places: list[int | str] = [*kept, *names]
    return Unwrapped(
        function=inner,
        arguments=(*(every[position] for position in kept), *(named[name] for name in names)),
        donated=frozenset(number for number, place in enumerate(places) if place in donated),
        keeps_unused=info is not None and keeps_unused(jitted),
    )


def keeps_unused(jitted: Any) -> bool:
    """Returns whether a function of `jax.jit` or `nnx.jit` keeps the arguments that it never reads. Returns False for
    any other function.
    """
    return bool(getattr(_find_jit_info(jitted), "keep_unused", False))


def _unwrap_partial(
    function: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    """Returns the function inside methods and `functools.partial`, and all arguments that it gets."""
    while True:
        if isinstance(function, MethodType):
            function, arguments = function.__func__, (function.__self__, *arguments)
        elif isinstance(function, partial):
            bound = cast("Any", function)
            function, arguments = bound.func, (*bound.args, *arguments)
            keywords = {**bound.keywords, **keywords}
        else:
            return function, arguments, keywords


def _find_jit_info(function: Any) -> Any:
    """Returns the record of the options of a function of `jax.jit` or `nnx.jit`; None for any other function."""
    return getattr(function, "_jit_info", None) or getattr(getattr(function, "jitted_fn", None), "_jit_info", None)


KERNELS = "ligerdiag_kernel_"
"""Prefix of the module names of rebuilt kernels."""


_replaced: set[str] = set()


def find_object(module: str, qualname: str, wrappers: Sequence[str]) -> Any:
    """Imports the module and returns the object with this qualified name, or one of its attributes.

    wrappers: names of attributes. They are followed one after the other from the object; the value of the last one is
    returned.
    """
    found: Any = importlib.import_module(module)
    for name in (*qualname.split("."), *wrappers):
        found = getattr(found, name)
    return found


def build_kernel(function: FunctionType, lines: Sequence[str], start: int, options: Mapping[str, Any]) -> Any:
    """Applies `triton.jit` to an unpickled function, and returns the resulting kernel.

    lines: the kernel's source. start: number of the line of the function's file at which the source begins, from 1.
    options: the keywords of `triton.jit`.
    """
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
    """Returns `jax.jit(function, **options)`."""
    library: Any = importlib.import_module("jax")
    return library.jit(function, **options)


def build_field(options: Mapping[str, Any]) -> Any:
    """Returns `dataclasses.field(**options)`."""
    return dataclasses.field(**options)


def initialize_nothing(instance: Any) -> None:
    """Does nothing. It serves as the `__init__` of an unpickled class until the class has its own."""


type MeshBuilder = Callable[[Mapping[str, int], Sequence[str]], Any]
"""A function from the sizes of a mesh, by axis, and its axes of the type Explicit, to the mesh."""

_mesh_builders: list[MeshBuilder] = []


@contextmanager
def place_meshes(build: MeshBuilder) -> Generator[None]:
    """Calls `build` for every mesh that is unpickled inside the context. `build` makes the mesh from the devices for
    which the program is compiled.
    """
    _mesh_builders.append(build)
    try:
        yield
    finally:
        _mesh_builders.pop()


def build_unplaced_mesh(sizes: tuple[int, ...], names: tuple[str, ...], explicit: tuple[str, ...] = ()) -> Any:
    """Rebuilds a mesh with these axes while it is unpickled. Its devices are those for which the program is compiled
    (see `place_meshes`). In a process that does not compile, the mesh has no devices.
    """
    if _mesh_builders:
        return _mesh_builders[-1](dict(zip(names, sizes, strict=True)), explicit)
    return build_abstract_mesh(dict(zip(names, sizes, strict=True)), explicit)


def build_named_sharding(mesh: Any, spec: Any, memory_kind: str | None) -> Any:
    """Returns `NamedSharding(mesh, spec, memory_kind=memory_kind)`."""
    library: Any = importlib.import_module("jax.sharding")
    return library.NamedSharding(mesh, spec, **({} if memory_kind is None else {"memory_kind": memory_kind}))


def build_partition_spec(parts: tuple[Any, ...], others: Mapping[str, Any]) -> Any:
    """Returns `PartitionSpec(*parts, **others)`."""
    library: Any = importlib.import_module("jax.sharding")
    return library.PartitionSpec(*parts, **others)


def build_abstract_mesh(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
    """Returns a mesh without devices.

    explicit: its axes of the type Explicit. All other axes have the type Auto.
    """
    library: Any = importlib.import_module("jax.sharding")
    kinds = tuple(library.AxisType.Explicit if name in explicit else library.AxisType.Auto for name in sizes)
    return library.AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds)


def register_pytree_class(kind: type[Any], fields: tuple[Any, Any] | None, functions: tuple[Any, Any] | None) -> None:
    """Registers the class as a pytree node, in the same way as in the caller's process. Does nothing if it is
    registered already.

    fields: (names of the data fields, names of the meta fields), for `jax.tree_util.register_dataclass`. functions:
    (flatten, unflatten), for `jax.tree_util.register_pytree_node`. One of the two is None, see
    `function_pickler.PytreeClass`.
    """
    library: Any = importlib.import_module("jax").tree_util
    with suppress(ValueError):  # registered by an earlier load: cloudpickle keeps the class
        if fields is not None:
            library.register_dataclass(kind, *fields)
        elif functions is not None:
            library.register_pytree_node(kind, *functions)


def forget_kernels() -> None:
    """Removes the modules that were made for rebuilt kernels, and the source lines that replaced lines of files."""
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
