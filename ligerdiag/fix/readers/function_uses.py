"""Finds the uses of a function by its name: its calls (also through imports, other names and `jax.jit`), and the places
where it is passed as a value.

Each place that reads the name is a call, an assignment to another name, which is followed, or a use as a value, which counts
as a caller without a call. Places that may name the function in a string, as `getattr` does, are listed separately, because
it cannot be decided whether they refer to it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.source_file import SourceFile, get_name
from ligerdiag.source_text import compute_near

WRAPPERS = frozenset({"jit", "checkpoint", "remat", "named_call", "named_scope"})
"""Functions of JAX that return a function with the same arguments and results."""
_FORMS = frozenset({"out_shardings", "out_axes", "static_argnames"})
"""Keywords of theirs that give each result a meaning, or each argument another place."""
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


def list_imported_uses(
    project: Project, home: SourceFile, name: str, seen: set[tuple[SourceFile, str]]
) -> Iterator[tuple[SourceFile, cst.CSTNode]]:
    """Yields (file, expression) for each expression in another file that refers to the name `name` of the module `home`.

    seen: (file, name) pairs that have been searched already; the function adds the pairs that it searches.
    """
    if (home, name) in seen:
        return
    seen.add((home, name))
    modules = project.find_modules(name, home)
    for file in project.find_users(name, home):
        if file is home:
            continue
        bound = [*_list_bound(file, name, modules)]
        for node, alias in bound:
            for read in find_variable(file, node, alias).reads:
                yield file, read
        paths, roots = _list_paths(file, modules)
        for one in file.find(cst.Attribute):
            if one.attr.value != name:
                continue
            text = file.module.code_for_node(one.value)
            if text in paths or (get_name(one.value) in modules and text.partition(".")[0] in roots):
                yield file, one
        for alias in {alias for _, alias in bound} - {name}:  # which a third file may import
            yield from list_imported_uses(project, file, alias, seen)


def _list_bound(file: SourceFile, name: str, modules: frozenset[str]) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yields a node in the scope of each import of a name, and the name that the file gives it."""
    for statement in file.find(cst.ImportFrom):
        is_home = statement.module is None or get_name(statement.module) in modules
        if isinstance(statement.names, cst.ImportStar):
            if is_home:
                yield statement, name
            continue
        for alias in statement.names:
            if alias.evaluated_name == name and is_home:
                yield alias, alias.evaluated_alias or name


def _list_paths(file: SourceFile, modules: frozenset[str]) -> tuple[set[str], set[str]]:
    """Returns the texts by which a file reaches modules, and the first names of all that it imports."""
    paths, roots = set[str](), set[str]()
    for kind in (cst.Import, cst.ImportFrom):
        for statement in file.find(kind):
            if isinstance(statement.names, cst.ImportStar):
                continue
            for one in statement.names:
                known = one.evaluated_alias or one.evaluated_name
                roots.add(known.partition(".")[0])
                if get_name(one.name) in modules:
                    paths.add(known)
    return paths, roots


def describe_use(
    project: Project, file: SourceFile, node: cst.CSTNode, seen: set[cst.CSTNode], first: int = 0
) -> Iterator[Caller]:
    """Yields the uses of a function through the expression `node`, which refers to it: calls, and uses of variables to which
    the expression is assigned. seen: the assignments that have been followed already; each newly followed assignment is
    added. first: as in `Caller`.
    """
    parent = next(file.list_parents(node))
    if isinstance(parent, cst.Call) and parent.func is node:
        yield Caller(file=file, node=parent, call=parent, first=first)
        return
    if isinstance(parent, cst.Arg):
        call = next(file.list_parents(parent))
        assert isinstance(call, cst.Call)
        if get_name(call.func) in WRAPPERS and call.args and call.args[0] is parent and not _gives_form(call):
            yield from describe_use(project, file, call, seen, first)
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
                    yield from describe_use(project, file, read, seen, first)
                if one.is_global:
                    for other, use in list_imported_uses(project, file, one.name, set()):
                        yield from describe_use(project, other, use, seen, first)
            return
    yield Caller(file=file, node=node, call=None)


def _gives_form(call: cst.Call) -> bool:
    return any(one.keyword is not None and one.keyword.value in _FORMS for one in call.args)


def list_texts_that_name(project: Project, name: str, home: SourceFile) -> Iterator[str]:
    """Yields the places that may refer to a function or method by a string: `getattr(module, "f")`, `import_module("m")`."""
    module = home.path.stem if home.path.stem != "__init__" else home.path.parent.name
    by_text = re.compile(rf"(?:{_BY_TEXT})[^\n]*[\"'](?:[\w.]*\.)?{re.escape(name)}[\"']")
    imports = re.compile(rf"{_IMPORTS_BY_TEXT}[^\n]*[\"'](?:[\w./]*[./])?{re.escape(module)}(?:\.py)?[\"']")
    for path, text in project.read_texts():
        for number, line in enumerate(text.splitlines(), 1):
            if by_text.search(line) or imports.search(line):
                yield f"{compute_near(str(path))}:{number}"
