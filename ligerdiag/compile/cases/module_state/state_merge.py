"""Gives the modules that a worker has imported the state that they have in the caller's process.

Objects that exist on both sides keep their identity: a list, a dict or an object of the worker gets the contents of the
caller's, so that every other name of it sees them. Only a value that differs is changed. One object of the worker never
takes the contents of two objects of the caller; the second becomes a new object.
"""

import importlib
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from ligerdiag.compile.cases.live_functions import find_object
from ligerdiag.compile.cases.module_state.state_records import (
    NodeKind,
    Reference,
    StateNode,
    StateRecord,
    describe_placement,
    describe_type,
    digest_code,
    read_array,
    read_attributes,
    read_jax_version,
)
from ligerdiag.errors import is_project_file

MISSING: Any = object()
"""Serves as a value where there is none."""
_WRAPPERS: Mapping[str, Callable[[Any], Any]] = {
    "builtins.staticmethod": staticmethod,
    "builtins.classmethod": classmethod,
}
# without their types: the values may be of any class, and methods of a derived class are not to be called
_numpy: Any = np
_list: Any = list
_dict: Any = dict
_set: Any = set
_tuple: Any = tuple
type _Path = str


class StateMerger:
    """Gives the modules of this process the state of the caller's process, as one record has it. `notes` has a line for
    each part of the state that differs and could not be transferred.
    """

    def __init__(self, record: StateRecord) -> None:
        self.notes: dict[str, None] = {}
        self._record = record
        self._names = frozenset(record.names)
        self._done: dict[int, Any] = {}
        """The values that nodes have become in this process."""
        self._claimed: dict[int, int] = {}
        """Maps the id of an object of this process to the node whose contents it has taken."""
        self._kept: list[object] = []
        self._same: dict[tuple[int, int], bool] = {}

    def merge_module(self, module: ModuleType, bases: Mapping[str, Any], kept: Iterable[str] = ()) -> None:
        """Gives a module's globals and classes the values that they have in the caller's process.

        bases: for each global that depends on JAX's devices, the value that an import in the caller's process would
        have given it. If a part of the caller's state equals this value, the caller has not changed it. kept: names of
        globals that must not be changed.
        """
        own, wanted = vars(module), self._record.modules.get(module.__name__)
        kept = set(kept)
        for name, number in (wanted or {}).items():
            if name not in kept:
                old = own.get(name, MISSING)
                new = self._merge(number, old, f"{module.__name__}.{name}", bases.get(name, MISSING))
                if new is not old:
                    own[name] = new
        for name in list(own) if wanted is not None and module.__name__ not in self._record.edited else ():
            is_gone = name in self._names and name not in cast("dict[str, int]", wanted)
            if is_gone and name not in kept and name not in bases and not _is_made_by_python(name, own[name]):
                del own[name]
        for qualname, nodes in self._record.classes.get(module.__name__, ()):
            kind = _find(module, qualname)
            if isinstance(kind, type):
                self._merge_class(kind, nodes, f"{module.__name__}.{qualname}")

    def note_differences(self, module: ModuleType) -> None:
        """Notes each value of the module that differs from the caller's. The module's file has changed since the caller
        imported it.
        """
        nodes = dict(self._record.modules.get(module.__name__, {}))
        for qualname, own in self._record.classes.get(module.__name__, ()):
            nodes |= {f"{qualname}.{name}": number for name, number in own.items()}
        for name, number in nodes.items():
            holder, _, last = name.rpartition(".")
            kind = _find(module, holder) if holder else module
            if kind is not None and not self.is_same(number, vars(kind).get(last, MISSING)):
                self.note(f"{module.__name__}.{name}", "the file has changed since it was imported there")

    def _merge_class(self, kind: type[Any], nodes: Mapping[str, int], path: _Path) -> None:
        for name, number in nodes.items():
            old = vars(kind).get(name, MISSING)
            new = self._merge(number, old, f"{path}.{name}")
            if new is not old and new is not MISSING:
                try:
                    type.__setattr__(kind, name, new)
                except (AttributeError, TypeError) as fault:
                    self.note(path, str(fault))

    def note(self, path: str, reason: str) -> None:
        """Notes that the value at `path`, a dotted name, differs from the caller's, and why."""
        self.notes[f"`{path}` is not as in your process: {reason}"] = None

    def _merge(self, number: int, old: Any, path: _Path, base: Any = MISSING) -> Any:
        """Returns the value of the node, in this process; `old` itself, perhaps with other contents, if possible."""
        if number in self._done:
            return self._done[number]
        if base is not MISSING and self.is_same(number, base):
            return old
        node = self._record.nodes[number]
        try:
            value = self._merge_node(number, node, old, path, base)
        except Exception as fault:
            self.note(path, f"{type(fault).__name__}: {fault}")
            return old
        if node.kind is not NodeKind.PLAIN and value is not MISSING:
            self._done.setdefault(number, value)
        return value

    def _merge_node(self, number: int, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        match node.kind:
            case NodeKind.PLAIN:
                return old if _is_equal(node.data, old) else node.data
            case NodeKind.MODULE:
                is_it = isinstance(old, ModuleType) and old.__name__ == node.data
                return old if is_it else importlib.import_module(node.data)
            case NodeKind.INERT:
                return None if old is MISSING else old
            case NodeKind.OPAQUE:
                kind, reason = node.data
                if describe_type(old) != kind:
                    self.note(path, f"it is an object of the type `{kind}` there, which cannot be passed on ({reason})")
                else:
                    self.notes[f"`{path}` may not be as in your process: no `{kind}` can be passed on ({reason})"] = (
                        None
                    )
                return old
            case NodeKind.REFERENCE:
                return self._find(node.data, old)
            case NodeKind.PICKLE:
                return old if self.is_same(number, old) else self._load(node, path, old)
            case NodeKind.ARRAY:
                return self._merge_array(number, node, old, path)
            case NodeKind.FUNCTION:
                return self._merge_function(number, node, old, path, base)
            case NodeKind.WRAPPED | NodeKind.METHOD | NodeKind.PARTIAL:
                return self._merge_wrapped(node, old, path, base)
            case NodeKind.SEQUENCE:
                return self._merge_sequence(number, node, old, path, base)
            case NodeKind.SET:
                return self._merge_set(number, node, old, path)
            case NodeKind.MAPPING:
                return self._merge_mapping(number, node, old, path, base)
            case NodeKind.INSTANCE:
                return self._merge_instance(number, node, old, path, base)

    def _find(self, reference: Reference, old: Any) -> Any:
        """Returns the object of this reference; `old` if it is the library function of that name, which ligerdiag may have
        replaced in a worker and which another version of JAX has in another module.
        """
        module, qualname, steps = reference
        own = str(getattr(old, "__module__", None))
        has_name = getattr(old, "__name__", None) == qualname.rpartition(".")[2] and not steps
        is_there = own == module or (
            self._record.versions != read_jax_version() and own.partition(".")[0] == module.partition(".")[0]
        )
        file = getattr(sys.modules.get(own), "__file__", None) or ""
        if has_name and is_there and not is_project_file(file):
            return old
        try:
            return find_object(*reference)
        except (ImportError, AttributeError):
            if old is MISSING or self._record.versions == read_jax_version():
                raise
            return old  # of a library that this version of JAX has elsewhere

    def _claim(self, number: int, value: Any) -> bool:
        """Notes that the object takes the contents of the node; returns False if it has taken those of another."""
        owner = self._claimed.setdefault(id(value), number)
        if owner != number:
            return False
        self._kept.append(value)
        self._done[number] = value
        return True

    def _load(self, node: StateNode, path: _Path, old: Any) -> Any:
        if not node.pickled:
            kind = "function" if node.kind is NodeKind.FUNCTION else "object"
            self.note(path, f"it is another {kind} there, which cannot be passed on")
            return old
        return pickle.loads(node.pickled)

    def _merge_array(self, number: int, node: StateNode, old: Any, path: _Path) -> Any:
        if self.is_same(number, old):
            return old
        kind, shape, dtype, _ = node.data
        if not node.pickled and 0 not in shape:
            self.note(path, f"its values there, `{dtype}{list(shape)}`, are others, and too many to be passed on")
            return old
        values: Any = _numpy.frombuffer(node.pickled, dtype=_find_dtype(dtype)).reshape(shape)
        if kind == "jax":
            library: Any = importlib.import_module("jax.numpy")
            return library.asarray(values)
        is_like: bool = type(old) is _numpy.ndarray and old.shape == values.shape and old.dtype == values.dtype
        if is_like and old.flags.writeable and self._claim(number, old):
            old[...] = values
            return old
        return values.copy()

    def _merge_function(self, number: int, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        reference, digest = node.data
        if reference is not None:
            function: Any = self._find(reference, old)
        elif isinstance(old, FunctionType) and digest_code(old.__code__) == digest and self._claim(number, old):
            function = old
        else:
            return self._load(node, path, old)
        if not isinstance(function, FunctionType) or not node.parts:
            return function
        self._done[number] = function
        cells = function.__closure__ or ()
        if len(cells) + 2 != len(node.parts):
            return function
        bases = base if isinstance(base, FunctionType) else None
        defaults = self._merge(node.parts[0], function.__defaults__, path, getattr(bases, "__defaults__", MISSING))
        if defaults is not function.__defaults__:
            function.__defaults__ = defaults
        by_name = self._merge(node.parts[1], function.__kwdefaults__, path)
        if by_name is not function.__kwdefaults__:
            function.__kwdefaults__ = by_name
        names = function.__code__.co_freevars
        base_cells = (bases.__closure__ or ()) if bases is not None else ()
        for position, (name, cell, part) in enumerate(zip(names, cells, node.parts[2:], strict=True)):
            before = _read_cell(cell)
            beneath = _read_cell(base_cells[position]) if len(base_cells) == len(cells) else MISSING
            after = self._merge(part, before, f"{path}.{name}", beneath)
            if after is not before and after is not MISSING:
                cell.cell_contents = after
        self._merge_attributes(node, function, path, MISSING, drops=False)
        return function

    def _merge_wrapped(self, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        names = _list_part_names(node)
        olds = [getattr(old, name, MISSING) for name in names]
        parts = [
            self._merge(part, one, path, getattr(base, name, MISSING))
            for part, one, name in zip(node.parts, olds, names, strict=True)
        ]
        if _is_wrapper_like(node, old) and all(
            new is one or _is_equal(new, one) for new, one in zip(parts, olds, strict=True)
        ):
            return old
        if node.kind is NodeKind.METHOD:
            return MethodType(parts[0], parts[1])
        if node.kind is NodeKind.PARTIAL:
            return partial(parts[0], *parts[1], **parts[2])
        make = _WRAPPERS.get(describe_type(old))
        return make(parts[0]) if make is not None and node.data == "__func__" else self._load(node, path, old)

    def _merge_sequence(self, number: int, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        kind = find_object(*node.data)
        is_like = type(old) is kind
        olds: list[Any] = list(old) if is_like else []
        bases: list[Any] = list(base) if type(base) is kind else []
        target: Any = None
        if _derives(kind, list):
            target = old if is_like and self._claim(number, old) else kind.__new__(kind)
            self._done[number] = target
        items = [
            self._merge(part, _get(olds, position), f"{path}[{position}]", _get(bases, position))
            for position, part in enumerate(node.parts)
        ]
        if target is None:
            is_same = len(items) == len(olds) and all(new is one for new, one in zip(items, olds, strict=True))
            return (
                old if is_like and is_same else _tuple.__new__(kind, [None if one is MISSING else one for one in items])
            )
        if len(items) != len(target) or any(new is not one for new, one in zip(items, target, strict=True)):
            _list.__setitem__(target, slice(None), [one for one in items if one is not MISSING])
        return target

    def _merge_set(self, number: int, node: StateNode, old: Any, path: _Path) -> Any:
        kind = find_object(*node.data)
        items = [self._merge(part, MISSING, path) for part in node.parts]
        built: set[Any] = {one for one in items if one is not MISSING}
        if type(old) is kind and old == built:
            return old
        if _derives(kind, frozenset):
            return kind(built)
        target: Any = old if type(old) is kind and self._claim(number, old) else kind.__new__(kind)
        _set.clear(target)
        _set.update(target, built)
        return target

    def _merge_mapping(self, number: int, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        kind = find_object(*node.data)
        is_like = type(old) is kind
        if is_like and self._claim(number, old):
            target: Any = old
        elif node.pickled:
            return pickle.loads(node.pickled)
        else:
            target = kind.__new__(kind)
        self._done[number] = target
        bases: dict[Any, Any] = base if type(base) is kind else {}
        new: dict[Any, Any] = {}
        for part, value in zip(node.parts[::2], node.parts[1::2], strict=True):
            key = self._merge(part, MISSING, path)
            before = _dict.get(target, key, MISSING)
            new[key] = self._merge(value, before, f"{path}[{key!r:.40}]", _dict.get(bases, key, MISSING))
        new = {key: value for key, value in new.items() if value is not MISSING and key is not MISSING}
        for key in [key for key in _dict.keys(target) if key not in new]:
            _dict.__delitem__(target, key)
        if list(_dict.keys(target)) == list(new)[: len(target)]:
            for key, value in new.items():
                if _dict.get(target, key, MISSING) is not value:
                    _dict.__setitem__(target, key, value)
        else:
            _dict.clear(target)
            _dict.update(target, new)
        self._merge_attributes(node, target, path, MISSING, drops=False)
        return target

    def _merge_instance(self, number: int, node: StateNode, old: Any, path: _Path, base: Any) -> Any:
        kind = find_object(*node.data)
        if type(old) is kind and self._claim(number, old):
            target = old
        elif node.pickled:
            return pickle.loads(node.pickled)
        else:
            target = kind.__new__(kind)
            self._done[number] = target
        self._merge_attributes(node, target, path, base, drops=not node.pickled)
        return target

    def _merge_attributes(self, node: StateNode, target: Any, path: _Path, base: Any, *, drops: bool) -> None:
        """drops: whether the object loses attributes that it does not have in the caller's process."""
        olds = read_attributes(target) or {}
        bases = read_attributes(base) or {} if base is not MISSING else {}
        own: dict[str, Any] = getattr(target, "__dict__", {})
        for name, part in node.named:
            old = olds.get(name, MISSING)
            new = self._merge(part, old, f"{path}.{name}", bases.get(name, MISSING))
            if new is old or new is MISSING:
                continue
            if name in own or not _is_slot(target, name):
                own[name] = new
            else:
                object.__setattr__(target, name, new)
        if drops:
            named = {name for name, _ in node.named}
            for name in [name for name in olds if name not in named and name in own]:
                del own[name]

    def is_same(self, number: int, value: Any) -> bool:
        """Returns whether a value of this process equals the value in the node with this number."""
        key = (number, id(value))
        if key not in self._same:
            self._same[key] = True  # a part of itself: equal if the rest is
            self._kept.append(value)
            try:
                self._same[key] = self._compare(self._record.nodes[number], value)
            except Exception:
                self._same[key] = False
        return self._same[key]

    def _compare(self, node: StateNode, value: Any) -> bool:
        match node.kind:
            case NodeKind.PLAIN:
                return _is_equal(node.data, value)
            case NodeKind.MODULE:
                return isinstance(value, ModuleType) and value.__name__ == node.data
            case NodeKind.INERT:
                return True
            case NodeKind.OPAQUE:
                return describe_type(value) == node.data[0]
            case NodeKind.REFERENCE:
                return self._find(node.data, value) is value
            case NodeKind.PICKLE:
                if node.data:
                    return describe_placement(value) == node.data
                there = pickle.loads(node.pickled)
                return type(there) is type(value) and (there is value or bool(there == value))
            case NodeKind.ARRAY:
                found = read_array(value)
                return found is not None and found[0] == node.data
            case NodeKind.FUNCTION:
                reference, digest = node.data
                if reference is not None:
                    return self._find(reference, value) is value
                values = (value.__defaults__, value.__kwdefaults__, *map(_read_cell, value.__closure__ or ()))
                return digest_code(value.__code__) == digest and self._are_same(node.parts, values)
            case NodeKind.WRAPPED | NodeKind.METHOD | NodeKind.PARTIAL:
                values = [getattr(value, name, MISSING) for name in _list_part_names(node)]
                return _is_wrapper_like(node, value) and self._are_same(node.parts, values)
            case NodeKind.SEQUENCE:
                return type(value) is find_object(*node.data) and self._are_same(node.parts, list(value))
            case NodeKind.SET:
                return type(value) is find_object(*node.data) and self._are_same(node.parts, sorted(value, key=repr))
            case NodeKind.MAPPING:
                items = [one for pair in value.items() for one in pair]
                return type(value) is find_object(*node.data) and self._are_same(node.parts, items)
            case NodeKind.INSTANCE:
                own = read_attributes(value) or {}
                names = [name for name, _ in node.named]
                is_like = type(value) is find_object(*node.data) and set(names) == own.keys()
                return is_like and self._are_same([one for _, one in node.named], [own[name] for name in names])

    def _are_same(self, numbers: Iterable[int], values: Iterable[Any]) -> bool:
        numbers, values = list(numbers), list(values)
        return len(numbers) == len(values) and all(map(self.is_same, numbers, values))


def _derives(kind: type[Any], base: type[Any]) -> bool:
    return issubclass(kind, base)


def _is_equal(there: object, here: object) -> bool:
    return type(there) is type(here) and (there == here or repr(there) == repr(here)) and repr(there) == repr(here)


def _get(items: list[Any], position: int) -> Any:
    return items[position] if position < len(items) else MISSING


def _read_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _list_part_names(node: StateNode) -> tuple[str, ...]:
    match node.kind:
        case NodeKind.METHOD:
            return "__func__", "__self__"
        case NodeKind.PARTIAL:
            return "func", "args", "keywords"
        case _:
            return (node.data,)


def _is_wrapper_like(node: StateNode, value: object) -> bool:
    match node.kind:
        case NodeKind.METHOD:
            return isinstance(value, MethodType)
        case NodeKind.PARTIAL:
            return type(value) is partial
        case _:
            return hasattr(value, node.data)


def _find(module: ModuleType, qualname: str) -> Any:
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _find_dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        library: Any = importlib.import_module("ml_dtypes")
        return np.dtype(getattr(library, name))


def _is_slot(target: object, name: str) -> bool:
    return not hasattr(target, "__dict__") or hasattr(getattr(type(target), name, None), "__set__")


def _is_made_by_python(name: str, value: object) -> bool:
    return (name.startswith("__") and name.endswith("__")) or isinstance(value, ModuleType)
