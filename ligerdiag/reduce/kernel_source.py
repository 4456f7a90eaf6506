"""Copies the source of kernels, and of the constants and functions that they use. Runs in a worker.

The constants and functions may be in other modules of the user's project. A copied definition keeps its name. If another
definition has that name already, a number is appended, and the uses are changed accordingly.
"""

import ast
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, cast

import numpy as np

from ligerdiag.reduce.expressions import write_value

_LIBRARIES = frozenset(("triton", "jax", "jaxlib", "jax_triton", "numpy", "ml_dtypes", *sys.stdlib_module_names))
"""Packages that the written file may import. From any other package, the file gets copies of the definitions that it
uses.
"""


class UnwritableError(Exception):
    """Raised if a call or a value cannot be written as Python.

    The message is the end of a sentence that begins with the name of the call or value, such as "has no source file".
    """


@dataclass(slots=True)
class SourceCopier:
    """Collects the definitions and imports of the kernels of one program."""

    definitions: dict[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each definition to its source text, in an order in which the definitions can be executed."""
    imports: list[str] = field(default_factory=list[str])
    _names: dict[int, str] = field(default_factory=dict[int, str])
    """From the id of a function to the name that its copy has."""
    _kept: list[Any] = field(default_factory=list[Any])
    """The functions in `_names`, so that no other object gets their ids."""

    def copy(self, kernel: Any) -> str:
        """Copies the source of a kernel or another function from its file, and returns the name of the copy.

        Raises UnwritableError if there is no source, as for a function that was made by `exec`. Objects that the function
        uses and that cannot be copied (a class, a value without a Python form) are imported from their module.
        """
        function = unwrap(kernel)
        if not inspect.isfunction(function):
            raise UnwritableError(f"is a {type(kernel).__name__}, not a function")
        if id(function) in self._names:
            return self._names[id(function)]
        try:
            text = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError) as fault:
            raise UnwritableError("has no source file") from fault
        (definition, *_) = tree.body
        if not isinstance(definition, ast.FunctionDef):
            raise UnwritableError("is no function with a `def`")
        own = definition.name
        name = self._choose_name(own)
        self._names[id(function)] = name
        self._kept.append(function)
        self.definitions[name] = ""  # reserves the name
        try:
            changes = self._list_changes(definition, function, own, name)
        except UnwritableError:
            del self._names[id(function)]
            raise
        finally:
            del self.definitions[name]
        text = _change(text, changes)
        if name != own:
            text = re.sub(rf"^def {re.escape(own)}\b", f"def {name}", text, count=1, flags=re.MULTILINE)
        self.definitions[name] = text.rstrip() + "\n"
        return name

    def write_function(self, function: Any) -> str:
        """Returns a Python expression for a function.

        It is the name of the function's copy, a `lambda` with the numbers that the function uses written out, or a
        `partial`.
        Raises UnwritableError as `copy` does, and for an argument of a `partial` without a Python form.
        """
        if isinstance(function, partial):
            made = cast("partial[Any]", function)
            parts = [self.write_parameter(value) for value in made.args]
            parts += [f"{name}={self.write_parameter(value)}" for name, value in made.keywords.items()]
            self.imports.append("from functools import partial")
            return f"partial({', '.join((self.write_function(made.func), *parts))})"
        inner = unwrap(function)
        if getattr(inner, "__name__", "") != "<lambda>":
            return self.copy(function)
        node, lines = _find_lambda(inner)
        changes: dict[tuple[int, int], tuple[int, str]] = {}
        for read in _list_reads(node):
            found = _look_up(ast.unparse(read), inner)
            new = write_value(found[0]) if found else self._find_text(read, inner, "", "")
            if new is not None:
                changes[read.lineno, read.col_offset] = (read.end_col_offset or 0, new)
        if node.end_lineno != node.lineno:
            raise UnwritableError("has a `lambda` of several lines")
        changes = {place: change for place, change in changes.items() if place[1] >= node.col_offset}
        text = _change(lines[node.lineno - 1], {(1, start): change for (_, start), change in changes.items()})
        width = sum(len(new.encode()) - (end - start) for (_, start), (end, new) in changes.items())
        return text.encode()[node.col_offset : (node.end_col_offset or 0) + width].decode()

    def _list_changes(
        self, definition: ast.FunctionDef, function: Any, own: str, name: str
    ) -> dict[tuple[int, int], tuple[int, str]]:
        """Copies what the function reads, and returns the places where the copy reads it under another name."""
        changes: dict[tuple[int, int], tuple[int, str]] = {}
        for node in _list_reads(definition):
            new = self._find_text(node, function, own, name)
            if new is not None:
                if node.end_lineno != node.lineno:
                    raise UnwritableError(f"has `{ast.unparse(node)}` in more than one line")
                changes[node.lineno, node.col_offset] = (node.end_col_offset or 0, new)
        return changes

    def _choose_name(self, name: str, text: str | None = None) -> str:
        """Returns a free name; that of an equal definition, if there is one. text: the part after `NAME = `."""
        chosen, number = name, 1
        while chosen in self.definitions and (text is None or self.definitions[chosen] != f"{chosen} = {text}\n"):
            number += 1
            chosen = f"{name}_{number}"
        return chosen

    def _find_text(self, node: ast.Name | ast.Attribute, function: Any, own: str, name: str) -> str | None:
        """Copies what a name or an attribute of a module reads, and returns the text that takes its place; None if it
        stays unchanged.
        """
        path = ast.unparse(node).split(".")
        if path == [own]:
            return name if name != own else None
        found = _look_up(path[0], function)
        if not found:
            return None
        value, depth = found[0], 1
        while depth < len(path) and isinstance(value, ModuleType) and not _is_library(value.__name__):
            if not hasattr(value, path[depth]):
                return None
            value, depth = getattr(value, path[depth]), depth + 1
        new = self._copy_global(path[depth - 1], value, str(function.__module__))
        text = ".".join((new, *path[depth:]))
        return text if text != ast.unparse(node) else None

    def _copy_global(self, name: str, value: Any, reader: str) -> str:
        """Defines or imports a value that a function reads under this name, and returns the new name. reader: the module of
        the function.
        """
        if isinstance(value, ModuleType):
            self.imports.append(_write_import(name, value.__name__))
            return name
        inner, kind = unwrap(value), cast("type[Any]", type(value))
        if kind.__name__ == "constexpr":
            text = write_value(value.value)
            if text is not None:
                self.imports.append("import triton.language as tl")
                return self._define(name, f"tl.constexpr({text})")
        if inspect.isfunction(inner) and not _is_library(inner.__module__):
            return self.copy(inner)
        text = write_value(value)
        if text is not None:
            return self._define(name, text)
        module, origin = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", name))
        if getattr(sys.modules.get(module), origin, None) is value:
            self.imports.append(f"from {module} import {origin}" + (f" as {name}" if origin != name else ""))
        elif getattr(sys.modules.get(reader), name, None) is value:
            self.imports.append(f"from {reader} import {name}")
        else:
            raise UnwritableError(f"uses `{name}`, a {kind.__name__} that cannot be copied")
        return name

    def _define(self, name: str, text: str) -> str:
        chosen = self._choose_name(name, text)
        self.definitions[chosen] = f"{chosen} = {text}\n"
        return chosen

    def write_parameter(self, value: Any) -> str:
        """Returns the Python expression for a constant of a kernel.

        The constant is a number, a dtype of Triton or JAX, or a function. The source of a function is added to the
        output, and the expression is its name. Raises UnwritableError for any other value.
        """
        text = write_value(value)
        if text is not None:
            return text
        kind = cast("type[Any]", type(value))
        if kind.__name__ == "constexpr":
            self.imports.append("import triton.language as tl")
            return f"tl.constexpr({self.write_parameter(value.value)})"
        if kind.__module__.startswith("triton.language") and kind.__name__ == "dtype":
            language = sys.modules["triton.language"]
            names = [name for name, one in vars(language).items() if type(one) is kind and one == value]
            if names:
                self.imports.append("import triton.language as tl")
                return f"tl.{names[0]}"
        if isinstance(value, type) and issubclass(cast("type[Any]", value), np.generic):
            self.imports.append("import jax.numpy as jnp")
            return f"jnp.{np.dtype(cast('type[Any]', value)).name}"
        scalar: Any = value  # such as `jnp.float32`
        if (dtype := getattr(scalar, "dtype", None)) is not None and not hasattr(scalar, "shape"):
            self.imports.append("import jax.numpy as jnp")
            return f"jnp.{dtype.name}"
        inner = unwrap(value)
        if isinstance(value, partial) or getattr(inner, "__name__", "") == "<lambda>":
            return self.write_function(value)
        if inspect.isfunction(inner):
            if _is_library(inner.__module__):
                self.imports.append(f"from {inner.__module__} import {inner.__name__}")
                return str(inner.__name__)
            return self.copy(value)
        raise UnwritableError(f"has a parameter of type `{kind.__name__}`, which has no Python form")


def unwrap(kernel: Any) -> Any:
    """Returns the Python function that Triton's decorators wrap."""
    while not inspect.isfunction(kernel) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _find_lambda(function: Any) -> tuple[ast.Lambda, list[str]]:
    """Returns the node of a `lambda` in its file, and the file's lines. Raises UnwritableError if it cannot be found."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError as fault:
        raise UnwritableError("has no source file") from fault
    places = [(line, start) for line, _, start, end in code.co_positions() if line and start is not None and end]
    inside = [one for one in ast.walk(tree) if isinstance(one, ast.Lambda) and one.lineno == code.co_firstlineno]
    if places:
        found = [
            node
            for node in inside
            if all((node.lineno, node.col_offset) <= one <= (node.end_lineno, node.end_col_offset) for one in places)
        ]
    else:  # it returns a constant
        found = [node for node in inside if _read_constant(node) == (code.co_varnames, code.co_consts)]
    if not found:
        raise UnwritableError("has a `lambda` whose source code cannot be found")
    return found[-1], lines  # the innermost one


def _read_constant(node: ast.Lambda) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Returns the parameters and constants of a `lambda` as Python's bytecode has them."""
    (code,) = [one for one in compile(ast.Expression(node), "", "eval").co_consts if inspect.iscode(one)]
    return code.co_varnames, code.co_consts


def _list_reads(definition: ast.FunctionDef | ast.Lambda) -> Iterator[ast.Name | ast.Attribute]:
    """Yields the names that a function reads from outside, each as the longest chain of attributes that begins with it."""
    arguments = {one.arg for one in ast.walk(definition) if isinstance(one, ast.arg)}
    stored = {one.id for one in ast.walk(definition) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    nested = {one.name for one in ast.walk(definition) if isinstance(one, ast.FunctionDef) and one is not definition}
    own = arguments | stored | nested
    decorators = definition.decorator_list if isinstance(definition, ast.FunctionDef) else []
    head = [*decorators, *definition.args.defaults, *definition.args.kw_defaults]
    head += [one.annotation for one in ast.walk(definition) if isinstance(one, ast.arg)]
    outside = {id(node) for one in head if one is not None for node in ast.walk(one)}
    seen: set[int] = set()
    for node in ast.walk(definition):
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(inner, ast.Name) or id(node) in seen:
            continue
        seen.update(id(one) for one in ast.walk(node))
        if inner.id not in own or id(inner) in outside:
            yield node


def _look_up(name: str, function: Any) -> tuple[Any] | tuple[()]:
    """Returns the value of a name that a function reads from outside; nothing if it is unknown, or one of Python's own."""
    if function.__closure__:
        nonlocals = inspect.getclosurevars(function).nonlocals
        if name in nonlocals:
            return (nonlocals[name],)
    if name in function.__globals__:
        return (function.__globals__[name],)
    return ()


def _change(text: str, changes: dict[tuple[int, int], tuple[int, str]]) -> str:
    """Returns the text with other words at these places: (line from 1, first byte) to (byte after the end, new words)."""
    lines = [line.encode() for line in text.splitlines()]
    for (line, start), (end, new) in sorted(changes.items(), reverse=True):
        lines[line - 1] = lines[line - 1][:start] + new.encode() + lines[line - 1][end:]
    return "\n".join(line.decode() for line in lines) + "\n"


def _is_library(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in _LIBRARIES


def _write_import(name: str, module: str) -> str:
    package, _, last = module.rpartition(".")
    if module == name:
        return f"import {name}"
    if package and last == name:
        return f"from {package} import {last}"
    is_pallas = module.startswith("jax.experimental.")
    return f"from {package} import {last} as {name}" if is_pallas else f"import {module} as {name}"
