"""Records the state of the user's modules in the caller's process; see `state_records`."""

import io
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

from ligerdiag.compile.cases.function_pickler import FunctionPickler
from ligerdiag.compile.cases.live_functions import find_reference
from ligerdiag.compile.cases.module_state.edited_files import digest_node, find_unchanged, was_edited_before
from ligerdiag.compile.cases.module_state.state_reach import NameReach
from ligerdiag.compile.cases.module_state.state_records import (
    MAXIMUM_ARRAY_BYTES,
    MAXIMUM_BYTES,
    PLAIN,
    NodeKind,
    Reference,
    StateNode,
    StateRecord,
    describe_placement,
    describe_type,
    digest_code,
    is_bulky,
    is_inert,
    read_array,
    read_attributes,
    read_jax_version,
)
from ligerdiag.errors import is_project_file

_DEPTH = 40
_SKIPPED = frozenset({"__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__"}) | {
    "__spec__", "__path__", "__annotations__", "__warningregistry__", "__conditional_annotations__",
}  # fmt: skip
"""Names of globals that Python itself sets in a module."""
_SKIPPED_OF_CLASSES = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"}) | {
    "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__static_attributes__", "__slots__",
    "__firstlineno__", "__match_args__", "__hash__", "__annotate__", "__dataclass_fields__", "__dataclass_params__",
}  # fmt: skip
_OWNERS = ("sys", "os", "jax")
"""Modules that come first if several have an object, so that it does not matter which modules are imported."""
_GPU = ("gpu", "cuda", "rocm")


def list_state_modules(by_value: frozenset[str]) -> dict[str, ModuleType]:
    """Returns the user's modules, by name, that are imported here and that a worker can import.

    by_value: names of modules that a worker cannot import.
    """
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name != "__main__"
        and name not in by_value
        and _is_a(module, ModuleType)
        and isinstance(file := getattr(module, "__file__", None), str)
        and getattr(module, "__name__", "") == name
        and is_project_file(file)
    }


def read_state(roots: Iterable[object], by_value: frozenset[str]) -> tuple[StateRecord, tuple[type[Any], ...]]:
    """Returns the state of the user's modules that code can use, starting from `roots`. Also returns the classes that
    the record of the state contains by value.

    roots: the function and the values that it gets. by_value: names of modules that a worker cannot import.
    """
    modules = list_state_modules(by_value)
    owners = _LibraryGlobals(modules, by_value)
    reach = NameReach(modules, roots, owners)
    encoder = _Encoder(by_value, owners)
    record = StateRecord(
        nodes=encoder.nodes,
        names=_list_module_names(reach),
        versions=read_jax_version(),
        backend=_read_backend(),
    )
    for name, module in sorted(reach.modules.items()):
        own = vars(module)
        wanted = {one: value for one, value in list(own.items()) if one not in _SKIPPED and reach.has(one)}
        if wanted:
            record.modules[name] = {one: encoder.encode(value) for one, value in wanted.items()}
    for kind in sorted(reach.classes, key=lambda one: (one.__module__, one.__qualname__)):
        reference = find_reference(kind, by_value)
        if reference is not None and not reference[2] and not issubclass(kind, Enum):
            own = {one: value for one, value in vars(kind).items() if _is_state_of_class(one, value)}
            nodes = {one: encoder.encode(value) for one, value in own.items()}
            record.classes.setdefault(kind.__module__, []).append((kind.__qualname__, nodes))
    for name in sorted({*record.modules, *record.classes}):
        _leave_out_unchanged(record, modules[name])
    return record, tuple(encoder.classes)


def _list_module_names(reach: NameReach) -> tuple[str, ...]:
    """Returns the names that code can look up, with those that it can make up as far as a module has them."""
    made_up = ([one for one in vars(each) if reach.has(one)] for each in reach.modules.values())
    return tuple(sorted(reach.names.union(*made_up)))


def _leave_out_unchanged(record: StateRecord, module: ModuleType) -> None:
    """Leaves out what this process has not changed in a module whose file has changed since it was imported."""
    name = module.__name__
    own, classes = record.modules.get(name, {}), record.classes.get(name, [])
    every = own | {f"{qualname}.{one}": number for qualname, nodes in classes for one, number in nodes.items()}
    unchanged = find_unchanged(module, {one: digest_node(record.nodes, number) for one, number in every.items()})
    if unchanged is not None:
        record.edited[name] = True
        record.modules[name] = {one: number for one, number in own.items() if one not in unchanged}
        record.classes[name] = [
            (qualname, {one: number for one, number in nodes.items() if f"{qualname}.{one}" not in unchanged})
            for qualname, nodes in classes
        ]
    elif was_edited_before(module):
        record.edited[name] = False


def _read_backend() -> str:
    """Returns the platform of JAX's default backend, without making one."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if not getattr(bridge, "_backends", None):
        return ""
    platform = str(getattr(getattr(bridge, "_default_backend", None), "platform", ""))
    return "gpu" if platform in _GPU else platform


def _is_state_of_class(name: str, value: object) -> bool:
    if name in _SKIPPED_OF_CLASSES:
        return False
    if isinstance(value, FunctionType | staticmethod | classmethod | property):
        return True
    is_descriptor = hasattr(type(value), "__set__") or type(value).__name__ in ("wrapper_descriptor", "cached_property")
    return not is_descriptor and not (name.startswith("__") and name.endswith("__"))


class _LibraryGlobals:
    """The globals of imported modules that are not the user's, by the ids of the objects."""

    def __init__(self, own: Mapping[str, ModuleType], by_value: frozenset[str]) -> None:
        """own: the user's modules by name. by_value: names of modules that a worker cannot import."""
        self._owners: dict[int, str] = {}
        """Maps the id of each object to the name of the first module that has it."""
        names = [name for name in list(sys.modules) if name not in own and name not in by_value and name != "__main__"]
        names.sort(key=lambda one: (one not in _OWNERS, one.count("."), one.startswith("_"), one), reverse=True)
        for name in names:
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            if (
                not _is_a(module, ModuleType)
                or name.startswith(("ligerdiag", "_pytest"))
                or (file and is_project_file(file))
            ):
                continue
            # in one step for each module: in a session of tests there are hundreds of thousands of globals
            self._owners.update(dict.fromkeys(map(id, list(vars(module).values())), name))

    def __contains__(self, number: object) -> bool:
        return number in self._owners

    def find(self, value: object) -> Reference | None:
        """Returns the reference of the object; None if no library has it as a global."""
        owner = self._owners.get(id(value))
        if owner is None:
            return None
        names = [name for name, one in list(vars(sys.modules[owner]).items()) if one is value]
        return (owner, names[0], ()) if names else None


class _Encoder:
    """Makes the nodes of a record; an object that occurs twice has one node."""

    def __init__(self, by_value: frozenset[str], owners: _LibraryGlobals) -> None:
        self.nodes: list[StateNode] = []
        self.classes: list[type[Any]] = []
        self._by_value = by_value
        self._known: dict[object, int] = {}
        self._kept: list[object] = []
        """The objects whose ids are in `_known`, so that no other object gets their ids."""
        self._owners = owners
        self._depth = 0
        self._room = MAXIMUM_BYTES

    def encode(self, value: object) -> int:
        """Adds a value to the record as a node, and returns the node's number."""
        key = (type(value), repr(value)) if type(value) in PLAIN else id(value)
        if key in self._known:
            return self._known[key]
        number = len(self.nodes)
        node = StateNode(kind=NodeKind.OPAQUE)
        self.nodes.append(node)
        if type(value) not in (tuple, frozenset):  # whether equal ones are one object is Python's choice
            self._kept.append(value)
            self._known[key] = number
        self._depth += 1
        try:
            self._fill(node, value)
        except Exception as fault:
            node.kind, node.data = NodeKind.OPAQUE, (describe_type(value), f"{type(fault).__name__}: {fault}")
            node.parts, node.named, node.pickled = (), (), b""
        finally:
            self._depth -= 1
        return number

    def _fill(self, node: StateNode, value: Any) -> None:
        kind = cast("type[Any]", type(value))
        if kind in PLAIN:
            node.kind, node.data = NodeKind.PLAIN, value
        elif isinstance(value, ModuleType):
            node.kind, node.data = NodeKind.MODULE, value.__name__
        elif isinstance(value, FunctionType):
            self._fill_function(node, value)
        elif (owned := self._find_owner(value)) is not None:
            node.kind, node.data = NodeKind.REFERENCE, owned
        elif isinstance(value, MethodType):
            node.kind, node.parts = NodeKind.METHOD, (self.encode(value.__func__), self.encode(value.__self__))
        elif kind is partial:
            node.kind = NodeKind.PARTIAL
            node.parts = tuple(self.encode(one) for one in (value.func, value.args, value.keywords))
        elif isinstance(value, type):
            self._fill_class(node, cast("type[Any]", value))
        elif (arrays := read_array(value)) is not None:
            facts, numbers = arrays
            node.kind, node.data = NodeKind.ARRAY, facts
            if len(numbers) <= min(MAXIMUM_ARRAY_BYTES, self._room):
                node.pickled = numbers
                self._room -= len(numbers)
        elif placement := describe_placement(value):
            node.kind, node.data, node.pickled = NodeKind.PICKLE, placement, self._pickle(value)
        elif not self._is_users(kind) and (reference := self._refer(value)) is not None:
            node.kind, node.data = NodeKind.REFERENCE, reference
        elif is_inert(value):
            node.kind, node.data = NodeKind.INERT, describe_type(value)
        elif self._depth > _DEPTH:
            node.kind, node.data = NodeKind.OPAQUE, (describe_type(value), "it is nested too deeply")
        else:
            self._fill_object(node, value)

    def _find_owner(self, value: object) -> Reference | None:
        """Returns the reference of an object that a library has as a global, such as `os.environ` or `jax.config`: a worker
        has its own, and its contents are not the user's.
        """
        kind = cast("type[Any]", type(value))
        if isinstance(value, tuple | frozenset | type) or self._is_users(kind) or read_array(value) is not None:
            return None
        return self._owners.find(value)

    def _fill_class(self, node: StateNode, kind: type[Any]) -> None:
        reference = self._refer(kind)
        if reference is None:
            node.kind, node.data, node.pickled = NodeKind.PICKLE, "", self._pickle(kind)
        else:
            node.kind, node.data = NodeKind.REFERENCE, reference

    def _fill_object(self, node: StateNode, value: Any) -> None:
        kind = cast("type[Any]", type(value))
        own = self._refer(kind)
        if is_bulky(value):
            node.kind, node.data = NodeKind.PICKLE, ""
            node.pickled = self._pickle(value)
        elif _is_a(value, dict) and own is not None:
            items = [one for pair in list(cast("dict[Any, Any]", value).items()) for one in pair]
            node.kind, node.data, node.parts = NodeKind.MAPPING, own, tuple(self.encode(one) for one in items)
            node.named = self._encode_attributes(value) if kind.__module__ != "collections" else ()
            node.pickled = b"" if kind is dict else self._try_pickle(value)
        elif _is_a(value, list, tuple) and own is not None:
            items = list(cast("list[Any]", value))
            node.kind, node.data, node.parts = NodeKind.SEQUENCE, own, tuple(self.encode(one) for one in items)
        elif _is_a(value, set, frozenset) and own is not None:
            items = sorted(cast("set[Any]", value), key=repr)
            node.kind, node.data, node.parts = NodeKind.SET, own, tuple(self.encode(one) for one in items)
        elif (name := _find_wrapped_name(value)) and isinstance(getattr(value, name, None), FunctionType):
            node.kind, node.data, node.parts = NodeKind.WRAPPED, name, (self.encode(getattr(value, name)),)
            node.pickled = self._try_pickle(value)
        elif self._is_users(kind) or (own is not None and not _is_a(value, Enum) and hasattr(value, "__dict__")):
            node.kind, node.data, node.named = NodeKind.INSTANCE, own, self._encode_attributes(value)
            node.pickled = b"" if self._is_users(kind) else self._try_pickle(value)
        else:
            node.kind, node.data, node.pickled = NodeKind.PICKLE, "", self._pickle(value)

    def _is_users(self, kind: type[Any]) -> bool:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        is_own = isinstance(file, str) and is_project_file(file)
        return is_own and not issubclass(kind, Enum) and self._refer(kind) is not None

    def _encode_attributes(self, value: object) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.encode(one)) for name, one in (read_attributes(value) or {}).items())

    def _fill_function(self, node: StateNode, function: FunctionType) -> None:
        reference = find_reference(function, self._by_value)
        cells: list[Any] = []
        for cell in function.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:
                cells.append(None)
        node.kind, node.data = NodeKind.FUNCTION, (reference, digest_code(function.__code__))
        if reference is None:
            node.pickled = self._try_pickle(function)
        if reference is None or is_project_file(function.__code__.co_filename):
            values = (function.__defaults__, function.__kwdefaults__, *cells)
            node.parts = tuple(self.encode(one) for one in values)
            node.named = tuple(
                (name, self.encode(one)) for name, one in vars(function).items() if name != "__wrapped__"
            )

    def _refer(self, value: Any) -> Reference | None:
        return find_reference(value, self._by_value)

    def _try_pickle(self, value: object) -> bytes:
        try:
            return self._pickle(value)
        except Exception:
            return b""

    def _pickle(self, value: object) -> bytes:
        stream = io.BytesIO()
        pickler = FunctionPickler(stream, self._by_value)
        pickler.dump(value)
        self.classes += pickler.classes
        if stream.tell() > MAXIMUM_BYTES:
            raise ValueError(f"the object takes more than {MAXIMUM_BYTES} bytes when pickled")
        return stream.getvalue()


def _is_a(value: object, *kinds: type[Any]) -> bool:
    return isinstance(value, kinds)


def _find_wrapped_name(value: object) -> str:
    names: Mapping[str, str] = {
        "jaxlib.PjitFunction": "__wrapped__",
        "triton.JITFunction": "fn",
        "triton.InterpretedFunction": "fn",
        "builtins.staticmethod": "__func__",
        "builtins.classmethod": "__func__",
    }
    return names.get(describe_type(value), "")
