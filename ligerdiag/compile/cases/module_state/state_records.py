"""Defines the record of the state of the user's modules. Also computes the facts about values that two processes need:
the caller, which records its state, and the worker, which compares it with the state after its own import.

A record is a graph: each value is a node, and a node names its parts by their numbers. So two names of one object in
the caller's process remain two names of one object in the worker. A record depends on nothing but the values: equal
states have equal records, because the record is part of every question to the cache.
"""

import io
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from types import BuiltinFunctionType, CodeType
from typing import Any, cast

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
"""Types whose values are compared as they are."""
MAXIMUM_ARRAY_BYTES = 1 << 20
"""Size in bytes of the largest array that is recorded with its values; of larger ones there is only a digest."""
MAXIMUM_BYTES = 32 << 20
"""The most bytes of arrays, and of pickles of one object, that a record has."""
MANY = 10_000
"""Number of items from which a container of plain values is one node."""
_INERT_MODULES = frozenset(
    {"_thread", "threading", "_io", "logging", "weakref", "_weakref", "_weakrefset", "concurrent", "multiprocessing"}
    | {"subprocess", "socket", "_socket", "queue", "_queue", "asyncio", "tempfile", "traceback", "inspect", "ast"}
    | {
        "typing",
        "_contextvars",
        "contextlib",
        "importlib",
        "_frozen_importlib",
        "_frozen_importlib_external",
        "_pytest",
    }
    | {"pytest", "pluggy", "unittest", "warnings", "abc", "_abc", "ligerdiag"}
)
_INERT_TYPES = frozenset(
    {"jax.Compiled", "jax.Lowered", "jax.Traced", "functools._lru_cache_wrapper"}
    | {"jax.DynamicJaxprTracer", "jax.JVPTracer", "jax.BatchTracer"}
    | {f"jaxlib.{name}" for name in ("Device", "Client", "LoadedExecutable", "Executable", "Memory")}
)


class NodeKind(StrEnum):
    """The kinds of nodes. The text below each kind says what the fields `data`, `parts` and `named` of such a
    `StateNode` hold.
    """

    PLAIN = "plain"
    """data: the value."""
    SEQUENCE = "sequence"
    """A list or a tuple. data: the reference to its class. parts: the items."""
    SET = "set"
    """A set or a frozenset. data: the reference to its class. parts: the items, sorted if they can be."""
    MAPPING = "mapping"
    """A dict. data: the reference to its class. parts: a key and its value, alternately."""
    INSTANCE = "instance"
    """An object with attributes. data: the reference to its class. named: the attributes. pickled: the whole object."""
    WRAPPED = "wrapped"
    """An object around a function, such as one of `jax.jit`, a kernel or a staticmethod. data: the name of the attribute
    that has the function. parts: the function. pickled: the whole object."""
    FUNCTION = "function"
    """data: (reference or None, digest of the code). parts: default values, default values by keyword, contents of the
    closure's cells. named: its attributes. pickled: the function, unless there is a reference."""
    REFERENCE = "reference"
    """data: the reference."""
    METHOD = "method"
    """A bound method. parts: the function, the object."""
    PARTIAL = "partial"
    """A `functools.partial`. parts: the function, the arguments, those by keyword."""
    MODULE = "module"
    """data: the module's name."""
    ARRAY = "array"
    """data: `ArrayFacts`. pickled: the values as bytes, unless the array is large."""
    PICKLE = "pickle"
    """data: a text that describes the value, or "". pickled: the value."""
    INERT = "inert"
    """A value that cannot change what a program computes, such as a lock or a logger. data: the name of its type."""
    OPAQUE = "opaque"
    """A value that can be neither compared nor sent. data: (the name of its type, the reason)."""


type Reference = tuple[str, str, tuple[str, ...]]
"""How another process finds an object, as `live_functions.find_reference` returns it."""


@dataclass(slots=True)
class StateNode:
    """A value of the caller's process. See `NodeKind`."""

    kind: NodeKind
    data: Any = None
    parts: tuple[int, ...] = ()
    named: tuple[tuple[str, int], ...] = ()
    pickled: bytes = b""


@dataclass(slots=True)
class StateRecord:
    """The state of the user's modules, as far as a function can use it."""

    nodes: list[StateNode] = field(default_factory=list[StateNode])
    modules: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Maps the name of a module to the nodes of its globals by name."""
    names: tuple[str, ...] = ()
    """The names, sorted, that code can look up; those of a module's globals that are not in `modules` are not there."""
    classes: dict[str, list[tuple[str, dict[str, int]]]] = field(
        default_factory=dict[str, list[tuple[str, dict[str, int]]]]
    )
    """Maps the name of a module to its classes: (qualified name, the nodes of the attributes by name)."""
    edited: dict[str, bool] = field(default_factory=dict[str, bool])
    """Names of modules whose files have changed since they were imported, and whether `modules` has exactly what the
    caller's process has changed itself (see `edited_files`)."""
    versions: str = ""
    """The version of the caller's JAX; with another one, library functions are found elsewhere."""
    backend: str = ""
    """The platform of the caller's default backend; empty if its JAX has none yet, and so has answered no question."""


def render_state(record: StateRecord) -> bytes:
    """Returns the record as a pickle. Equal records have equal pickles."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True  # whether two equal texts are one object, which pickle would note, is chance
    pickler.dump(record)
    return stream.getvalue()


type ArrayFacts = tuple[str, tuple[int, ...], str, str]
"""(kind: `numpy` or `jax`, shape, dtype, sha256 of the values)."""


def describe_type(value: object) -> str:
    """Returns the name of a value's type with its package, such as `jax.Mesh`."""
    kind = cast("type[Any]", type(value))
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def is_inert(value: object) -> bool:
    """Returns whether the value, such as a lock, is left out of the record. It cannot change what a program computes,
    or it has a meaning in its own process only.
    """
    kind = cast("type[Any]", type(value))
    if isinstance(value, BuiltinFunctionType):
        return False
    return kind.__module__.partition(".")[0] in _INERT_MODULES or describe_type(value) in _INERT_TYPES


def read_jax_version() -> str:
    """Returns the version of the JAX that this process has imported. Returns an empty string if it has not imported
    JAX.
    """
    return str(getattr(sys.modules.get("jax"), "__version__", ""))


def read_array(value: Any) -> tuple[ArrayFacts, bytes] | None:
    """Returns the facts about an array of NumPy or JAX, and its values as bytes. Returns None for any other value. Also
    returns None for an array whose values cannot be read, such as a random key or a deleted array.
    """
    library: Any = sys.modules.get("jax")
    is_jax = library is not None and isinstance(value, library.Array)
    if not is_jax and type(value) is not np.ndarray:
        return None
    try:
        numbers = np.asarray(value)
    except Exception:
        return None
    if numbers.dtype.hasobject:
        return None
    values = numbers.tobytes()
    facts = ("jax" if is_jax else "numpy", tuple(numbers.shape), str(numbers.dtype), sha256(values).hexdigest())
    return facts, values


def digest_code(code: CodeType) -> str:
    """Returns a sha256 of the code, with its file and line. It is the same for one function in two processes."""
    digest = sha256()
    _add_code(digest, code)
    return digest.hexdigest()


def _add_code(digest: Any, code: CodeType) -> None:
    names = (code.co_filename, code.co_firstlineno, code.co_qualname, code.co_names, code.co_varnames, code.co_freevars)
    digest.update(repr(names).encode(errors="surrogatepass"))
    digest.update(code.co_code)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            _add_code(digest, one)
        else:
            digest.update(_render_constant(one).encode(errors="surrogatepass"))


def _render_constant(value: object) -> str:
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(repr, cast('frozenset[object]', value)))})"
    return repr(value)


def is_bulky(value: object) -> bool:
    """Returns whether the value is a large container that contains only plain values."""
    if type(value) not in (list, tuple, dict) or len(cast("list[object]", value)) < MANY:
        return False
    items = cast("dict[object, object]", value)
    return all(type(one) in PLAIN for one in items) and (
        not isinstance(value, dict) or all(type(one) in PLAIN for one in items.values())
    )


def read_attributes(value: object) -> Mapping[str, Any] | None:
    """Returns the attributes that the object itself has, by name, without those of its class. Returns None for an
    object that cannot have attributes.
    """
    found: dict[str, Any] = {}
    has_any = False
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            has_any = True
            private = f"_{kind.__name__.lstrip('_')}{name}" if name[:2] == "__" and name[-2:] != "__" else name
            try:
                found[name if private == name else private] = object.__getattribute__(value, private)
            except AttributeError:
                continue
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        return {**found, **cast("dict[str, Any]", own)}
    return found if has_any else None


def describe_placement(value: Any) -> str:
    """Describes a mesh or a sharding without its devices, because a worker has other devices than the caller. Returns
    an empty string for any other value.
    """
    match describe_type(value):
        case "jax.Mesh" | "jax.AbstractMesh":
            return f"mesh {tuple(value.axis_names)} {tuple(value.axis_sizes)}"
        case "jax.NamedSharding" | "jaxlib.NamedSharding":
            return f"sharding {describe_placement(value.mesh)} {value.spec}"
        case _:
            return ""
