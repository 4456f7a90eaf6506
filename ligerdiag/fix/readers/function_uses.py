"""Finds the uses of a function by its name: its calls, also through imports, other names, `jax.jit`, `partial`, and dicts or
fields that hold it, and the places where it is passed as a value.

Each place that reads the name is a call, an assignment to another name, which is followed, or a use as a value, which counts
as a caller without a call. Places that may name the function in a string, as `getattr` does, are listed separately, because
it cannot be decided whether they refer to it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.imported_names import list_imported_uses
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.readers.stored_functions import list_stored_reads
from ligerdiag.fix.source_file import SourceFile, get_name
from ligerdiag.source_text import compute_near

WRAPPERS = frozenset({"jit", "checkpoint", "remat", "named_call", "named_scope"})
"""Functions of JAX that return a function with the same arguments and results."""
_FORMS = frozenset({"out_shardings", "out_axes", "static_argnames"})
"""Keywords of theirs that give each result a meaning, or each argument another place."""
_MAPPING = "vmap"
"""A function of JAX that, without `in_axes`, returns a function of arrays with one more axis in front."""
_BY_TEXT = r"(?:getattr|attrgetter|methodcaller|import_string)\(|(?:globals\(\)|vars\([^)\n]*\)|__dict__)\["
_IMPORTS_BY_TEXT = r"(?:import_module|__import__|run_path|run_module|spec_from_file_location)\("


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Caller:
    """A call of a function, or a place where the function is used as a value."""

    file: SourceFile
    node: cst.CSTNode
    call: cst.Call | None
    """The call; None if the function is passed as a value."""
    first: int = 0
    """Position of the parameter that gets the first positional argument: 1 for a method of an object."""
    reference: cst.CSTNode
    """The expression that refers to the function itself, such as `f` in `fast = jax.jit(f)` for the call `fast(x)`."""
    reference_file: SourceFile
    bound: tuple[str, ...] = ()
    """The parameters that get their arguments from a `partial`, by keyword."""
    slots: tuple[str, ...] = ()
    """Fields, such as `Ops.norm`, and elements, such as `OPS["norm"]`, through which the function is called."""


def list_function_callers(project: Project, home: SourceFile, function: cst.FunctionDef) -> Iterator[Caller]:
    """Yields each use of a function that is not a method. A use may be yielded several times."""
    variable = find_variable(home, function.name, function.name.value)
    seen = set[cst.CSTNode]()
    for node in variable.reads:
        yield from describe_use(project, home, node, seen)
    if variable.is_global:
        yield from _list_importers(project, home, function.name.value, seen)


def _list_importers(project: Project, home: SourceFile, name: str, seen: set[cst.CSTNode]) -> Iterator[Caller]:
    """Yields the uses of a name of the module `home` in the other files."""
    for file, node in list_imported_uses(project, home, name, set()):
        yield from describe_use(project, file, node, seen)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Path:
    """The way from a reference to a function to an expression whose value is the function."""

    reference: cst.CSTNode
    reference_file: SourceFile
    first: int
    bound: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()

    def describe(self, file: SourceFile, node: cst.CSTNode, call: cst.Call | None) -> Caller:
        return Caller(
            file=file,
            node=node,
            call=call,
            first=self.first,
            reference=self.reference,
            reference_file=self.reference_file,
            bound=self.bound,
            slots=self.slots,
        )


def describe_use(
    project: Project, file: SourceFile, node: cst.CSTNode, seen: set[cst.CSTNode], first: int = 0
) -> Iterator[Caller]:
    """Yields the uses of a function that begin with the expression `node`, which refers to the function.

    These are its calls, and the uses of each variable to which it is assigned. seen: the assignments that have been
    followed already; each newly followed assignment is added. first: as in `Caller`.
    """
    yield from _follow(project, file, node, seen, _Path(reference=node, reference_file=file, first=first))


def _follow(
    project: Project, file: SourceFile, node: cst.CSTNode, seen: set[cst.CSTNode], path: _Path
) -> Iterator[Caller]:
    parent = next(file.list_parents(node))
    if isinstance(parent, cst.Call) and parent.func is node:
        yield path.describe(file, parent, parent)
        return
    if isinstance(parent, cst.Arg):
        call = next(file.list_parents(parent))
        assert isinstance(call, cst.Call)
        if call.args[0] is parent and parent.keyword is None and (inner := _enter(call, path)) is not None:
            yield from _follow(project, file, call, seen, inner)
            return
    if isinstance(parent, cst.Assign) and all(isinstance(one.target, cst.Name) for one in parent.targets):
        names = [one.target for one in parent.targets if isinstance(one.target, cst.Name)]
        variables = [find_variable(file, one, one.value) for one in names]
        if not any(isinstance(one.scope, cst.ClassDef) for one in variables):
            if parent in seen:
                return
            seen.add(parent)
            for one in variables:
                for read in one.reads:
                    yield from _follow(project, file, read, seen, path)
                if one.is_global:
                    for other, use in list_imported_uses(project, file, one.name, set()):
                        yield from _follow(project, other, use, seen, path)
            return
    if isinstance(parent, cst.Arg | cst.DictElement):
        reads = list_stored_reads(project, file, node)
        if reads is not None:
            if parent not in seen:
                seen.add(parent)
                for other, use in reads:
                    slot = _name_slot(file, parent, other, use)
                    yield from _follow(project, other, use, seen, replace(path, slots=(*path.slots, slot)))
            return
    yield path.describe(file, node, None)


def _name_slot(file: SourceFile, stored: cst.CSTNode, other: SourceFile, use: cst.CSTNode) -> str:
    """Returns the name of the element or field from which `use` reads a function that the argument or element `stored` puts
    there.
    """
    made = next(file.list_parents(stored))
    if isinstance(use, cst.Attribute) and isinstance(made, cst.Call):
        return f"{get_name(made.func)}.{use.attr.value}"
    return other.module.code_for_node(use)


def _enter(call: cst.Call, path: _Path) -> _Path | None:
    """Returns the way to the value of a call, such as `jax.jit(f)`, whose first argument is the function; None if that
    value is no function with the same results and the arguments that are left.
    """
    name = get_name(call.func)
    if name in WRAPPERS:
        return None if _gives_form(call) else path
    if name == _MAPPING:
        return path if len(call.args) == 1 else None
    if name == "partial" and not any(one.star for one in call.args):
        named = tuple(one.keyword.value for one in call.args if one.keyword is not None)
        return replace(path, first=path.first + len(call.args) - 1 - len(named), bound=(*path.bound, *named))
    return None


def _gives_form(call: cst.Call) -> bool:
    return any(one.keyword is not None and one.keyword.value in _FORMS for one in call.args)


def list_texts_that_name(project: Project, name: str, home: SourceFile) -> Iterator[str]:
    """Yields the places that may refer to a function or method by a string.

    Examples are `getattr(module, "f")` and `import_module("m")`.
    """
    module = home.path.stem if home.path.stem != "__init__" else home.path.parent.name
    by_text = re.compile(rf"(?:{_BY_TEXT})[^\n]*[\"'](?:[\w.]*\.)?{re.escape(name)}[\"']")
    imports = re.compile(rf"{_IMPORTS_BY_TEXT}[^\n]*[\"'](?:[\w./]*[./])?{re.escape(module)}(?:\.py)?[\"']")
    for path, text in project.read_texts():
        for number, line in enumerate(text.splitlines(), 1):
            if by_text.search(line) or imports.search(line):
                yield f"{compute_near(str(path))}:{number}"
