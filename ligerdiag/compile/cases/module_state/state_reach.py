"""Finds the names that a function can look up, and so the parts of the user's modules on which its result can depend.

The names of all code that can be reached count, whatever they are looked up in: globals, attributes, parts of strings
such as those of `getattr`. So the answer may have too many names; it lacks a name only if code makes it up. Code that
can look up any name, such as code that calls `globals` or `eval`, makes every name count.

A module counts only if code can reach it: a function or class of it, an import of it by reachable code, or the module
itself as somebody's global. Otherwise a test session with hundreds of modules would be part of each question.
"""

import dis
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from ligerdiag.compile.cases.module_state.state_records import PLAIN, describe_type, is_inert, read_attributes
from ligerdiag.errors import is_project_file

_ANY_NAME = frozenset({"globals", "vars", "__dict__", "dir", "eval", "exec"})
_NAME = re.compile(r"[^\W\d]\w*")
_MOST_TEXT = 200
_IMPORT = dis.opmap["IMPORT_NAME"]
_MOST_OBJECTS = 100_000


class NameReach:
    """Finds the names that the code of some values can look up, and the user's classes that it can use. All code that
    this code uses counts as well.
    """

    def __init__(
        self, modules: Mapping[str, ModuleType], roots: Iterable[object], owned: Container[int] = frozenset()
    ) -> None:
        """modules: the user's modules by name. roots: the function and the values that it gets. owned: the ids of objects of
        libraries, whose contents do not count.
        """
        self.names: set[str] = set()
        self.modules: dict[str, ModuleType] = {}
        """The modules that code can reach, by name."""
        self.classes: dict[type[Any], None] = {}
        self._seen: dict[int, object] = {}
        self._modules = modules
        self._owned = owned
        self._visit(roots)
        visited: set[tuple[str, str]] = set()
        while True:
            new = [
                (module, name)
                for module, value in self.modules.items()
                for name in list(vars(value))
                if self.has(name) and (module, name) not in visited
            ]
            if not new:
                return
            visited.update(new)
            self._visit([vars(self.modules[module])[name] for module, name in new])

    def _note_imports(self, code: CodeType) -> None:
        """Notes the modules that the code imports, also those that it takes from a package. Of a relative import the code
        does not say to which package, so each module counts that has such a name in one.
        """
        if _IMPORT not in code.co_code[::2]:
            return
        recent: list[Any] = [None, None]
        for one in dis.get_instructions(code):
            if one.opname == "IMPORT_NAME":
                level, given = recent
                several = cast("tuple[str, ...]", given) if isinstance(given, tuple) else ()
                for name in (one.argval, *(f"{one.argval}.{each}".lstrip(".") for each in several)):
                    self._note_imported(name, is_relative=level != 0)
            recent = [recent[1], one.argval]

    def _note_imported(self, name: str, *, is_relative: bool) -> None:
        self._note_module(name)
        if is_relative and name:
            for each in self._modules:
                if each.endswith(f".{name}"):
                    self._note_module(each)

    def _note_module(self, name: str) -> None:
        """Notes a module, and the packages in which it is."""
        while name:
            if name in self._modules:
                self.modules[name] = self._modules[name]
            name = name.rpartition(".")[0]

    def has(self, name: str) -> bool:
        """Returns whether code may look up the name."""
        return name in self.names or not self.names.isdisjoint(_ANY_NAME)

    def _visit(self, values: Iterable[object]) -> None:
        stack = list(values)
        while stack:
            if len(self._seen) >= _MOST_OBJECTS:
                self._note_everything()
                return
            value = stack.pop()
            if type(value) in PLAIN or id(value) in self._seen:
                if isinstance(value, str):
                    self._note_text(value)
                continue
            self._seen[id(value)] = value
            try:
                stack.extend(list(self._list_parts(value)))
            except Exception:  # of an object with attributes that cannot be read: nobody knows what it looks up
                self._note_everything()

    def _note_everything(self) -> None:
        """Makes every name and class of every module count."""
        self.names |= _ANY_NAME
        self.modules |= self._modules
        for module in self._modules.values():
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ in self._modules:
                    self.classes[value] = None

    def _list_parts(self, value: Any) -> Iterator[object]:
        match value:
            case CodeType():
                self._note_code(value)
            case FunctionType():
                yield from self._list_parts_of_function(value)
            case MethodType():
                yield from (value.__func__, value.__self__)
            case partial():
                bound = cast("partial[Any]", value)
                yield from (bound.func, bound.args, bound.keywords)
            case staticmethod() | classmethod():
                yield cast("Any", value).__func__
            case property():
                yield from (value.fget, value.fset)
            case type():
                yield from self._list_parts_of_class(value)
            case _ if id(value) in self._owned and not isinstance(value, FunctionType | type | tuple):
                return
            case dict():
                for name, item in list(cast("dict[Any, Any]", value).items()):
                    yield from (name, item)
            case list() | tuple() | set() | frozenset():
                yield from list(cast("list[Any]", value))
            case ModuleType():
                self._note_module(value.__name__)
            case _:
                yield from filter(None, (_read(value, name) for name in ("__wrapped__", "fn", "__func__")))
                if is_inert(value) or describe_type(value) in ("numpy.ndarray", "jaxlib.ArrayImpl"):
                    return
                yield type(value)
                yield from (_read_attributes(value) or {}).values()

    def _list_parts_of_function(self, function: FunctionType) -> Iterator[object]:
        if function.__module__ in self._modules:  # a worker looks it up by its name
            self._note_module(function.__module__)
            self.names.update(function.__qualname__.split("."))
        file = function.__code__.co_filename
        if file.startswith("<") or is_project_file(file):
            yield function.__code__
            own = function.__globals__  # also those of a script, which is no module that a worker imports
            yield from [own[name] for name in _list_names(function.__code__) if name in own]
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:
                continue
        yield from (function.__defaults__, function.__kwdefaults__, vars(function))

    def _list_parts_of_class(self, kind: type[Any]) -> Iterator[object]:
        if kind.__module__ in self._modules:
            self._note_module(kind.__module__)
            self.classes[kind] = None
            self.names.update(kind.__qualname__.split("."))
        module = sys.modules.get(kind.__module__)
        file = getattr(module, "__file__", None)
        if kind.__module__ == "__main__" or (isinstance(file, str) and is_project_file(file)):
            yield from list(vars(kind).values())
            yield from kind.__bases__
            yield type(kind)

    def _note_code(self, code: CodeType) -> None:
        self.names.update(code.co_names)
        self._note_imports(code)
        stack: list[object] = list(code.co_consts)
        while stack:
            match stack.pop():
                case CodeType() as inner:
                    self._note_code(inner)
                case str() as text:
                    self._note_text(text)
                case tuple() | frozenset() as several:  # pyright: ignore[reportUnknownVariableType]
                    stack.extend(cast("tuple[object, ...]", several))
                case _:
                    continue

    def _note_text(self, text: str) -> None:
        if len(text) <= _MOST_TEXT:
            self.names.update(name for name in _NAME.findall(text) if name not in _ANY_NAME)
            if text in self._modules or (text[:1] == "." and text[1:2].isalpha()):  # as for `importlib.import_module`
                self._note_imported(text.lstrip("."), is_relative=text.startswith("."))


def _list_names(code: CodeType) -> Iterator[str]:
    """Yields the names in the code and in the code of functions that it defines."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _list_names(one)


def _read(value: object, name: str) -> object:
    try:
        return object.__getattribute__(value, name)
    except Exception:
        return None


def _read_attributes(value: object) -> Mapping[str, Any] | None:
    try:
        return read_attributes(value)
    except Exception:
        return None
